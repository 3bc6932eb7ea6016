-- Set the limit for all callers, or remove it, and grant the free permits to waiters. Held permits stay held, also above
-- a lower limit.
-- Precondition: none.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] queue  zset: waiting permit -> ticket
-- KEYS[3] limit  string: the limit that was set for all
-- ARGV[1] number  permits; 0: no limit for all
-- ARGV[2] handoff_ms  milliseconds of the leases that waiters get
-- DERIVED <holders>:asked, <holders>:paused, <holders>:handoffs, <holders>:probes, <holders>:wakeup
-- DERIVED <holders>:wakeup:<permit>
-- Returns 1: done
-- Cost: O(log permits) for each permit that is granted or found expired
local holders, queue, limit = KEYS[1], KEYS[2], KEYS[3]
local number, handoff_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call("TIME")
if number > 0 then
  redis.call("SET", limit, number)
else
  redis.call("DEL", limit)
end
-- @include permit_queue

local ctx = open_permits(holders, limit, time[1] * 1000000 + time[2], queue, handoff_ms)
local waiters = open_permit_queue(ctx)
serve(waiters)
watch_handoffs(waiters)
return 1
