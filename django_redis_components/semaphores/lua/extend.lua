-- Extend the lease of a held permit to at least ttl_ms from now. It is never shortened, and an expired one not revived.
-- Precondition: none.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] limit  string: the limit that was set for all
-- ARGV[1] permit  text: <id>:<count>:<limit>
-- ARGV[2] ttl_ms  milliseconds
-- DERIVED <holders>:handoffs, <holders>:holder:<permit>
-- Returns 1: held for at least that long
-- Returns 0: it had expired
-- Cost: O(log permits) for each permit it counts for, and for each found expired
local holders, limit = KEYS[1], KEYS[2]
local permit, ttl_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
-- @include permits
-- @include holder

local ctx = open_permits(holders, limit, time[1] * 1000000 + time[2])
local ends = redis.call("ZSCORE", holders, permit)
if not ends then
  return 0
end
redis.call("ZREM", holders .. ":handoffs", permit) -- adopted before its waiter has accepted it
grant(ctx, permit, math.max(ends - ctx.now_ms, ttl_ms))
redis.call("PEXPIRE", holder_of(holders, permit), ttl_ms, "GT")
return 1
