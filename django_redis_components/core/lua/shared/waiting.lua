-- Reading of a wait queue. A waiter that has not asked since since_ms does not count.

local function is_waiting(asked, since_ms, token)
  return tonumber(redis.call("ZSCORE", asked, token) or 0) >= since_ms
end

-- Count the waiters, without those that were handed what they wait for.
local function count_waiting(asked, since_ms, handoffs)
  local count = redis.call("ZCOUNT", asked, since_ms, "+inf")
  for _, token in ipairs(redis.call("ZRANGE", handoffs, 0, 999)) do
    count = count - (is_waiting(asked, since_ms, token) and 1 or 0)
  end
  return count
end
