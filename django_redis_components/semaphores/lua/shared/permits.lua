-- A permit's id ends in ":<how many it counts for>:<the limit it was asked under>". Each one it counts for
-- is a member of `holders`: the id itself, then <id>#2 and so on. Expects the locals holders, limit (a key)
-- and now_ms; drops what has expired.
redis.call("ZREMRANGEBYSCORE", holders, "-inf", now_ms)
-- The limit that was set for all; without one each permit has the one it was asked under.
local set_limit = tonumber(redis.call("GET", limit) or "")

local function wanted(permit)
  local count, own_limit = string.match(permit, ":(%d+):(%d+)$")
  return tonumber(count), set_limit or tonumber(own_limit)
end

local function is_room(permit)
  local count, most = wanted(permit)
  return redis.call("ZCARD", holders) + count <= most
end

-- Whether it wants more than there are, so that it would wait for ever and hold up those behind it.
local function is_too_great(permit)
  local count, most = wanted(permit)
  return count > most
end

-- Grants a permit, or sets its lease anew, and returns 1. The key lives as long as the last permit in it.
local function grant(permit, ttl_ms)
  redis.call("ZADD", holders, now_ms + ttl_ms, permit)
  for number = 2, (wanted(permit)) do
    redis.call("ZADD", holders, now_ms + ttl_ms, permit .. "#" .. number)
  end
  if redis.call("PEXPIRE", holders, ttl_ms, "GT") == 0 then
    redis.call("PEXPIRE", holders, ttl_ms, "NX")
  end
  return 1
end

local function holds(permit)
  return redis.call("ZSCORE", holders, permit) and true or false
end

-- Takes a permit away, and returns 1 if it was held.
local function revoke(permit)
  local held = redis.call("ZREM", holders, permit)
  for number = 2, (wanted(permit)) do
    redis.call("ZREM", holders, permit .. "#" .. number)
  end
  return held
end
