-- Set the limit for all callers, or remove it, and grant the free permits to waiters. Held permits stay held, also above
-- a lower limit.
-- Precondition: none.
-- KEYS[1] base  zset: held permit -> server time in ms at which it expires
-- KEYS[2] queue  zset: waiting permit -> ticket
-- ARGV[1] number  permits; 0: no limit for all
-- ARGV[2] handoff_ms  milliseconds of the leases that waiters get
-- DERIVED <base>:limit, <base>:asked, <base>:paused, <base>:handoffs, <base>:probes, <base>:wakeup
-- DERIVED <base>:wakeup:<permit>
-- Returns 1: done
-- Cost: O(log permits) for each permit that is granted or found expired
local base, queue = KEYS[1], KEYS[2]
local number, handoff_ms = tonumber(ARGV[1]), ARGV[2]
-- @include wait_queue

if number > 0 then
  redis.call("SET", base .. ":limit", number)
else
  redis.call("DEL", base .. ":limit")
end
local waiters = open_waiters({ base = base, queue = queue, handoff_ms = handoff_ms })
serve(waiters)
watch_handoffs(waiters)
return 1
