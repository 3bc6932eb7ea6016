-- Readers together or one writer, in the order of one line. Expects the locals base, writer, readers, fence,
-- queue, alive, now_us and now_ms.
-- @include fence
-- @include turns

-- What is over is gone from here on; the writer's key goes by itself.
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

-- Lets a token in, and returns its number: a writer's fencing token, 1 for a reader.
local function admit(token, ttl_ms)
  set_lease(token, ttl_ms)
  return reads(token) and 1 or next_fence(ttl_ms)
end

local function is_open_to(token)
  return redis.call("EXISTS", writer) == 0 and (reads(token) or redis.call("EXISTS", readers) == 0)
end

local function let_go(token)
  if reads(token) then
    redis.call("ZREM", readers, token)
  else
    redis.call("DEL", writer)
  end
end

-- Hands what is free to the first in line: to one writer, or to all readers up to the next writer.
local function settle(handoff_ms)
  local first = head()
  while first and is_open_to(first) do
    leave(first)
    admit(first, handoff_ms)
    ring(first, handoff_ms)
    first = head()
  end
end
