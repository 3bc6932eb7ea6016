-- For a waiter that gives up: leaves the queue, and gives back what it was just granted.
-- Precondition: none.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] queue  zset: waiting permit -> ticket
-- KEYS[3] limit  string: the limit that was set for all
-- ARGV[1] permit  text: <id>:<count>:<limit>
-- ARGV[2] handoff_ms  milliseconds of the leases that waiters get
-- DERIVED <holders>:asked, <holders>:paused, <holders>:handoffs, <holders>:probes, <holders>:wakeup
-- DERIVED <holders>:wakeup:<permit>
-- Returns 1: it waited, or held a permit
-- Returns 0: it did neither
-- Cost: O(log permits) for each permit that is given back, granted, or found expired
local base, holders, queue, limit = KEYS[1], KEYS[1], KEYS[2], KEYS[3]
local permit, handoff_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include permits
-- @include permit_queue

local waited, held = leave(permit), holds(permit)
redis.call("DEL", wakeup_of(permit))
revoke(permit)
review() -- it may have read the shared wakeup, by which another was told to
serve()
watch_handoffs()
return (waited or held) and 1 or 0
