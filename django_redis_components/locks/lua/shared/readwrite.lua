-- Readers together or one writer, in the order of one queue. Expects the locals base, writer, readers, fence, queue,
-- handoff_ms, now_us and now_ms.
-- @include fence

-- Leases that are over are gone from here on; the writer's key goes by itself.
redis.call("ZREMRANGEBYSCORE", readers, "-inf", now_ms)

local function reads(token)
  return string.sub(token, -2) == ":r"
end

-- Milliseconds left of a token's lease; nil when it holds nothing.
local function left_of(token)
  if reads(token) then
    local until_ms = redis.call("ZSCORE", readers, token)
    return until_ms and tonumber(until_ms) - now_ms or nil
  end
  return redis.call("GET", writer) == token and redis.call("PTTL", writer) or nil
end

local function set_lease(token, ttl_ms)
  if not reads(token) then
    redis.call("SET", writer, token, "PX", ttl_ms)
    return
  end
  redis.call("ZADD", readers, now_ms + ttl_ms, token)
  if redis.call("PTTL", readers) < ttl_ms then
    redis.call("PEXPIRE", readers, ttl_ms)
  end
end

local function holds(token)
  return left_of(token) ~= nil
end

-- Whether a waiter can be let in: a reader beside readers, a writer alone.
local function fits(token)
  return redis.call("EXISTS", writer) == 0 and (reads(token) or redis.call("EXISTS", readers) == 0)
end

-- Lets a token in, and returns its number: a writer's fencing token, 1 for a reader.
local function grant(token, ttl_ms)
  set_lease(token, ttl_ms)
  return reads(token) and 1 or next_fence(ttl_ms)
end

local function revoke(token)
  if reads(token) then
    redis.call("ZREM", readers, token)
  else
    redis.call("DEL", writer)
  end
end
