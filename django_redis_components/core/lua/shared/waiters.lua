-- Reading of wait queues. A waiter that has not asked since since_ms does not count.
-- @include kind

local function is_living(ctx, token, since_ms)
  local asked_ms = tonumber(redis.call("ZSCORE", ctx.base .. ":asked", token) or 0)
  return asked_ms >= since_ms and #queues_of(ctx, token) > 0
end

-- Return the living ones of the first waiters in a queue, each with its ticket.
local function living_waiters(ctx, queue, since_ms, most)
  local waiters = {}
  local first = redis.call("ZRANGE", queue, 0, most - 1, "WITHSCORES")
  for place = 1, #first, 2 do
    if is_living(ctx, first[place], since_ms) then
      waiters[#waiters + 1], waiters[#waiters + 2] = first[place], first[place + 1]
    end
  end
  return waiters
end

-- Count the waiters in a queue, without those that were handed what they wait for. In one of several queues those that
-- are not listed count as living.
local function count_waiters(ctx, queue, since_ms, most, listed)
  if queue ~= ctx.queue then
    return listed + math.max(0, redis.call("ZCARD", queue) - most)
  end
  local count = redis.call("ZCOUNT", ctx.base .. ":asked", since_ms, "+inf")
  for _, token in ipairs(redis.call("ZRANGE", ctx.base .. ":handoffs", 0, 999)) do
    count = count - (is_living(ctx, token, since_ms) and 1 or 0)
  end
  return count
end
