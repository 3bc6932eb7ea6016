-- Leave the queues without waiting any longer, and pass on what was just granted.
-- Precondition: none.
-- KEYS[1] group  hash: waiting token -> the names it wants, one per line
-- ARGV[1] token  text
-- ARGV[2] handoff_ms  milliseconds of the lease that the next waiter gets
-- ARGV[3..] names  text
-- DERIVED <group>:asked, <group>:paused, <group>:handoffs, <group>:probes, <group>:wakeup, <group>:wakeup:<token>
-- DERIVED <group>:holder:<token>
-- DERIVED <group>:held:<name>, <group>:fence:<name>, <group>:queue:<name>, also of names that others want
-- Returns 1: it waited, or held one of them
-- Returns 0: it did neither
-- Cost: O(names * log waiters), plus as much for each waiter that is probed, passed over or handed to
local group = KEYS[1]
local token, handoff_ms = ARGV[1], tonumber(ARGV[2])
local names = { unpack(ARGV, 3) }
local time = redis.call("TIME")
-- @include group_queue
-- @include holder

local ctx = group_context(group, handoff_ms, time[1] * 1000000 + time[2])
local waiters = open_group_queue(ctx)
local waited = leave(waiters, token)
redis.call("DEL", wakeup_of(group, token), holder_of(group, token))
local count = release_names(ctx, token, names)
review(waiters) -- the caller may have read the shared wakeup, by which another waiter was to do this
serve(waiters, names)
watch_handoffs(waiters)
return (waited or count > 0) and 1 or 0
