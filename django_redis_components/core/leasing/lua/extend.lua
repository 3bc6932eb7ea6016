-- Extend a lease to at least ttl_ms from now. It is never shortened, so a late repetition does no harm, and an expired one
-- is not revived.
-- Precondition: none.
-- KEYS[1] base  of the kind
-- ARGV[1] token  text
-- ARGV[2] ttl_ms  milliseconds
-- ARGV[3] options  text: see the kind
-- DERIVED <base>:handoffs, <base>:holder:<token>, and those of the kind
-- Returns 1: the lease lasts at least that long
-- Returns 0: this token has no lease, or of a group not all of the names; nothing was changed
-- Cost: that of the kind
local base = KEYS[1]
local token, ttl_ms, options = ARGV[1], tonumber(ARGV[2]), ARGV[3]
-- @include clock
-- @include kind
-- @include holder

local ctx = { base = base, token = token, options = options }
read_clock(ctx)
local remaining_ms = left_ms(ctx, token)
if not remaining_ms then
  return 0
end
redis.call("ZREM", base .. ":handoffs", token) -- adopted before its waiter has accepted it
if remaining_ms >= 0 and remaining_ms < ttl_ms then
  renew(ctx, token, ttl_ms)
end
redis.call("PEXPIRE", holder_of(base, token), ttl_ms, "GT")
return 1
