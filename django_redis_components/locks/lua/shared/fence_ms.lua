-- Milliseconds by which the fence outlives its lease: it is needed only while the server's clock may be set back to
-- before the last grant.
local FENCE_MS = 3600000

-- Keep the fence of a lease that was extended to ttl_ms.
local function keep_fence(fence, ttl_ms)
  redis.call("PEXPIRE", fence, ttl_ms + FENCE_MS, "GT")
end
