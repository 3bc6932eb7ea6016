local function grant(to, ttl_ms)
  redis.call("SET", lock, to, "PX", ttl_ms)
  return next_fence(ttl_ms)
end

-- Makes a waiter the holder for as long as it may take to notice.
local function hand_over(to, ttl_ms)
  leave(to)
  grant(to, ttl_ms)
  ring(to, ttl_ms)
end
