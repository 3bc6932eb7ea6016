-- Leave the queue without waiting any longer, and release what was just granted.
-- Precondition: none.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] queue  zset: waiting permit -> ticket
-- KEYS[3] limit  string: the limit that was set for all
-- ARGV[1] permit  text: <id>:<count>:<limit>
-- ARGV[2] handoff_ms  milliseconds of the leases that waiters get
-- DERIVED <holders>:asked, <holders>:paused, <holders>:handoffs, <holders>:probes, <holders>:wakeup
-- DERIVED <holders>:wakeup:<permit>, <holders>:holder:<permit>
-- Returns 1: it waited, or held a permit
-- Returns 0: it did neither
-- Cost: O(log permits) for each permit that is released, granted, or found expired
local holders, queue, limit = KEYS[1], KEYS[2], KEYS[3]
local permit, handoff_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
-- @include permit_queue
-- @include holder

local ctx = open_permits(holders, limit, time[1] * 1000000 + time[2], queue, handoff_ms)
local waiters = open_permit_queue(ctx)
local waited, held = leave(waiters, permit), holds(ctx, permit)
redis.call("DEL", wakeup_of(holders, permit), holder_of(holders, permit))
revoke(ctx, permit)
review(waiters) -- the caller may have read the shared wakeup, by which another waiter was to do this
serve(waiters)
watch_handoffs(waiters)
return (waited or held) and 1 or 0
