-- Release these names, and hand them off to the first waiters of their queues.
-- Precondition: none; names that the token does not hold stay as they are.
-- KEYS[1] group  hash: waiting token -> the names it wants, one per line
-- ARGV[1] token  text
-- ARGV[2] handoff_ms  milliseconds of the lease that the next waiter gets
-- ARGV[3..] names  text
-- DERIVED <group>:asked, <group>:paused, <group>:handoffs, <group>:probes, <group>:wakeup, <group>:wakeup:<token>
-- DERIVED <group>:held:<name>, <group>:fence:<name>, <group>:queue:<name>, also of names that others want
-- Returns 2: released and handed off: `confirm` must follow
-- Returns 1: all of them were held by this token, and are released
-- Returns 0: not all of them; those that were are released
-- Cost: O(names * log waiters), plus as much for each waiter that is passed over or handed to
local group = KEYS[1]
local token, handoff_ms = ARGV[1], tonumber(ARGV[2])
local names = { unpack(ARGV, 3) }
local time = redis.call("TIME")
-- @include group

local ctx = group_context(group, handoff_ms, time[1] * 1000000 + time[2])
local count = release_names(ctx, token, names)
-- No waiter: the common case, with nothing else to do.
if count == 0 or redis.call("EXISTS", group) == 0 then
  return count == #names and 1 or 0
end
-- @include group_queue

local waiters = open_group_queue(ctx)
serve(waiters, names)
if count < #names then
  watch_handoffs(waiters)
  return 0
end
return waiters.has_offered and 2 or 1
