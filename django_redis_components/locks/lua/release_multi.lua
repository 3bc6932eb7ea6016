-- Releases these names, and hands them to those who are first in their queues.
-- Precondition: none; names that the token does not hold stay as they are.
-- KEYS[1] group  hash: waiting token -> the names it wants, a line each
-- ARGV[1] token  text
-- ARGV[2] handoff_ms  milliseconds of the lease that the next waiter gets
-- ARGV[3..] names  text
-- DERIVED <group>:asked, <group>:paused, <group>:handoffs, <group>:probes, <group>:wakeup, <group>:wakeup:<token>
-- DERIVED <group>:held:<name>, <group>:fence:<name>, <group>:queue:<name>, also of names that others want
-- Returns 2: released and handed off: `confirm` must follow
-- Returns 1: all of them were held by this token, and are released
-- Returns 0: not all of them; those that were are released
-- Cost: O(names * log waiters), plus as much for each waiter that is passed over or handed to
local base, group = KEYS[1], KEYS[1]
local token, handoff_ms = ARGV[1], tonumber(ARGV[2])
local names = { unpack(ARGV, 3) }
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include group

local count = free(token, names)
if count > 0 and redis.call("EXISTS", group) == 1 then
  serve(names)
end
if count < #names then
  if offered then
    notify(shared_wakeup)
  end
  return 0
end
return offered and 2 or 1
