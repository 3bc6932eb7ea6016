-- For a waiter that gives up: leaves the queues, and passes on what it was just granted.
-- Precondition: none.
-- KEYS[1] group  hash: waiting token -> the names it wants, a line each
-- ARGV[1] token  text
-- ARGV[2] handoff_ms  milliseconds of the lease that the next waiter gets
-- ARGV[3..] names  text
-- DERIVED <group>:asked, <group>:paused, <group>:handoffs, <group>:probes, <group>:wakeup, <group>:wakeup:<token>
-- DERIVED <group>:held:<name>, <group>:fence:<name>, <group>:queue:<name>, also of names that others want
-- Returns 1: it waited, or held one of them
-- Returns 0: it did neither
-- Cost: O(names * log waiters), plus as much for each waiter that is probed, passed over or handed to
local base, group = KEYS[1], KEYS[1]
local token, handoff_ms = ARGV[1], tonumber(ARGV[2])
local names = { unpack(ARGV, 3) }
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include group

local waited = leave(token)
redis.call("DEL", wakeup_of(token))
local count = free(token, names)
review() -- it may have read the shared wakeup, by which another was told to
serve(names)
if offered then
  notify(shared_wakeup)
end
return (waited or count > 0) and 1 or 0
