-- Release these names, and hand them off to the first waiters of their queues.
-- Precondition: none; names that the token does not hold stay as they are.
-- KEYS[1] group  hash: waiting token -> the names it wants, one per line
-- ARGV[1] token  text
-- ARGV[2] released_by  text: the operator of a forced release; empty: the holder releases them
-- ARGV[3] handoff_ms  milliseconds of the lease that the next waiter gets
-- ARGV[4..] names  text
-- DERIVED <group>:asked, <group>:paused, <group>:handoffs, <group>:probes, <group>:wakeup, <group>:wakeup:<token>
-- DERIVED <group>:holder:<token>
-- DERIVED <group>:held:<name>, <group>:fence:<name>, <group>:queue:<name>, also of names that others want
-- Returns 2: released and handed off: `confirm` must follow
-- Returns 1: all of them were held by this token, and are released
-- Returns 0: not all of them; those that were are released
-- Cost: O(names * log waiters), plus as much for each waiter that is passed over or handed to
local group = KEYS[1]
local token, released_by, handoff_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local names = { unpack(ARGV, 4) }
local time = redis.call("TIME")
-- @include group

local ctx = group_context(group, handoff_ms, time[1] * 1000000 + time[2])
local count = release_names(ctx, token, names)
if released_by == "" then
  -- If some were released by force, the operator stays stored for the former holder's error.
  if count == #names then
    redis.call("DEL", group .. ":holder:" .. token)
  end
  -- No waiter: the common case, with nothing else to do.
  if count == 0 or redis.call("EXISTS", group) == 0 then
    return count == #names and 1 or 0
  end
end
-- @include group_queue
-- @include holder

if released_by ~= "" and count > 0 then
  mark_released(group, token, released_by)
end
local waiters = open_group_queue(ctx)
serve(waiters, names)
if count < #names then
  watch_handoffs(waiters)
  return 0
end
return waiters.has_offered and 2 or 1
