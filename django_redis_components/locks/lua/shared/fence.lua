-- Fencing tokens.

-- Milliseconds by which the fence outlives its lease: it is needed only while the server's clock may be set back to
-- before the last grant.
local FENCE_MS = 3600000

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

-- Keep the fence of a lease that was extended to ttl_ms, and return it.
local function keep_fence(fence, now_us, ttl_ms)
  redis.call("PEXPIRE", fence, ttl_ms + FENCE_MS, "GT")
  return tonumber(redis.call("GET", fence) or next_fence(fence, now_us, ttl_ms))
end

-- Return the last fencing token; 0 without one, or if another client has written something else.
local function read_fence(fence)
  return tonumber(redis.call("GET", fence) or 0) or 0
end
