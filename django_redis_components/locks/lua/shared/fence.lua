-- @include fence_ms

-- Return the next fencing token: above the last, and never below the server's clock in microseconds, so that it grows
-- also when the last one is lost.
local function next_fence(fence, now_us, ttl_ms)
  local last = redis.call("SET", fence, now_us, "GET", "PX", ttl_ms + FENCE_MS)
  if not last or tonumber(last) < now_us then
    return now_us
  end
  redis.call("SET", fence, last + 1, "PX", ttl_ms + FENCE_MS)
  return last + 1
end
