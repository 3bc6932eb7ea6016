-- A permit's id ends in ":<how many it counts for>:<the limit it was asked under>". Each one it counts for
-- is a member of `holders`: the id itself, then <id>#2 and so on. Expects the locals holders and now_ms;
-- drops what has expired.
redis.call("ZREMRANGEBYSCORE", holders, "-inf", now_ms)

local function wanted(permit)
  local count, limit = string.match(permit, ":(%d+):(%d+)$")
  return tonumber(count), tonumber(limit)
end

local function is_room(permit)
  local count, limit = wanted(permit)
  return redis.call("ZCARD", holders) + count <= limit
end

-- Grants a permit, or sets its lease anew. The key lives as long as the last permit in it.
local function grant(permit, ttl_ms)
  redis.call("ZADD", holders, now_ms + ttl_ms, permit)
  for number = 2, (wanted(permit)) do
    redis.call("ZADD", holders, now_ms + ttl_ms, permit .. "#" .. number)
  end
  if redis.call("PEXPIRE", holders, ttl_ms, "GT") == 0 then
    redis.call("PEXPIRE", holders, ttl_ms, "NX")
  end
end
