-- The kind of a `MultiLock` with a group: one holder of several names. base is a hash: waiting token -> the names it wants,
-- one per line. options is the names of the caller, in the same form and sorted.
-- Keys: base, and <base>:held:<name>, <base>:fence:<name>, <base>:queue:<name>, also of names that others want.
-- Cost: O(names). A waiter is in the queue of each name that it wants, under one ticket, and tickets are in one order: the
-- waiter with the lowest is first in all of its queues, so none can block each other for ever.
-- @include fence
-- @include integer

local function held_key(ctx, name)
  return ctx.base .. ":held:" .. name
end

local function fence_key(ctx, name)
  return ctx.base .. ":fence:" .. name
end

local function queue_key(ctx, name)
  return ctx.base .. ":queue:" .. name
end

local function names_in(joined)
  local names = {}
  for name in string.gmatch(joined or "", "[^\n]+") do
    names[#names + 1] = name
  end
  return names
end

-- Return the names that the call is about, or those that another waiter wants.
local function names_of(ctx, token)
  return names_in(token == ctx.token and ctx.options or redis.call("HGET", ctx.base, token))
end

local function queue_keys(ctx, names)
  local queues = {}
  for index, name in ipairs(names) do
    queues[index] = queue_key(ctx, name)
  end
  return queues
end

local function queues_of(ctx, token)
  return queue_keys(ctx, names_in(redis.call("HGET", ctx.base, token)))
end

local function own_queues(ctx)
  return queue_keys(ctx, names_in(ctx.options))
end

local function forget(ctx, token)
  redis.call("HDEL", ctx.base, token)
end

local function is_ordered()
  return true
end

local function limit_of()
  return 1, false
end

local function expire()
  return false
end

local function left_ms(ctx, token)
  local names, own, remaining_ms = names_of(ctx, token), 0, nil
  for _, name in ipairs(names) do
    if redis.call("GET", held_key(ctx, name)) == token then
      local name_ms = redis.call("PTTL", held_key(ctx, name))
      own, remaining_ms = own + 1, math.min(remaining_ms or name_ms, name_ms)
    end
  end
  return own == #names and remaining_ms or nil, own > 0
end

-- Grant all of these names under one number that is above the last of each.
local function grant(ctx, token, ttl_ms)
  local names, number, own = names_of(ctx, token), ctx.now_us, 0
  for _, name in ipairs(names) do
    local holder = redis.call("GET", held_key(ctx, name))
    if holder and holder ~= token then
      return nil
    end
    own = own + (holder and 1 or 0)
    number = math.max(number, read_fence(fence_key(ctx, name)) + 1)
  end
  if own == #names then
    return nil
  end
  for _, name in ipairs(names) do
    redis.call("SET", held_key(ctx, name), token, "PX", ttl_ms, "GET")
    redis.call("SET", fence_key(ctx, name), integer(number), "PX", integer(ttl_ms + FENCE_MS), "GET")
  end
  return number
end

local function renew(ctx, token, ttl_ms)
  local number = 0
  for _, name in ipairs(names_of(ctx, token)) do
    redis.call("PEXPIRE", held_key(ctx, name), ttl_ms)
    number = math.max(number, keep_fence(fence_key(ctx, name), ctx.now_us, ttl_ms))
  end
  return number
end

-- If some names were released by force, the operator stays stored for the former holder's error.
local function revoke(ctx, token, description)
  local names, count = names_of(ctx, token), 0
  for _, name in ipairs(names) do
    if redis.call("GET", held_key(ctx, name)) == token then
      count = count + redis.call("DEL", held_key(ctx, name))
    end
  end
  if count == #names and description then
    redis.call("DEL", description)
  end
  return count == #names, count > 0
end

-- A waiter holds no name while it waits for another one.
local function remember(ctx, token, ttl_ms)
  local wanted = redis.call("HGET", ctx.base, token)
  if wanted and wanted ~= ctx.options then
    return false
  end
  revoke(ctx, token)
  redis.call("HSET", ctx.base, token, ctx.options)
  redis.call("PEXPIRE", ctx.base, ttl_ms)
  return true
end

local function wait_ms(ctx)
  local longest = -1
  for _, name in ipairs(names_in(ctx.options)) do
    longest = math.max(longest, redis.call("PTTL", held_key(ctx, name)))
  end
  return longest
end

local function number_of(ctx, token)
  local number = 0
  for _, name in ipairs(names_of(ctx, token)) do
    number = math.max(number, read_fence(fence_key(ctx, name)))
  end
  return number
end

local function describe_objects(ctx)
  local objects = {}
  for index, name in ipairs(names_in(ctx.options)) do
    local holder = redis.call("GET", held_key(ctx, name))
    local holders = holder and { holder, redis.call("PTTL", held_key(ctx, name)) } or {}
    local queue, number = queue_key(ctx, name), read_fence(fence_key(ctx, name))
    objects[index] = { queue = queue, held = #holders / 2, limit = 1, number = number, holders = holders }
  end
  return objects
end
