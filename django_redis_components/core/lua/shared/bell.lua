-- One element at most: a bell that was not heard says nothing more when it rings twice.
local function ring(token, ttl_ms)
  local bell = base .. ":bell:" .. token
  if redis.call("RPUSH", bell, 1) > 1 then
    redis.call("LTRIM", bell, 0, 0)
  end
  redis.call("PEXPIRE", bell, ttl_ms)
end
