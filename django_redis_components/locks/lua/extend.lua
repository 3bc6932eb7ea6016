-- Extend the lease to at least ttl_ms from now. It is never shortened, so a late repetition does no harm.
-- Precondition: none.
-- KEYS[1] lock  string: the holder's token
-- KEYS[2] fence  string: the last fencing token
-- ARGV[1] token  text
-- ARGV[2] ttl_ms  milliseconds
-- DERIVED <lock>:handoffs, <lock>:holder:<token>
-- Returns 1: extended
-- Returns 0: not held by this token
-- Cost: O(1)
local lock, fence = KEYS[1], KEYS[2]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])
-- @include fence_ms
-- @include holder

if redis.call("GET", lock) ~= token then
  return 0
end
redis.call("PEXPIRE", lock, ttl_ms, "GT")
redis.call("PEXPIRE", holder_of(lock, token), ttl_ms, "GT")
redis.call("ZREM", lock .. ":handoffs", token) -- adopted before its waiter has taken it
keep_fence(fence, ttl_ms)
return 1
