-- Lets go of the lock and hands it to the first living waiter.
-- Precondition: none; a token that does not hold the lock changes nothing.
-- KEYS[1] lock  string: the holder's token
-- KEYS[2] fence  string: the last fencing token
-- KEYS[3] queue  zset: waiting token -> ticket
-- KEYS[4] alive  zset: waiting token -> server time in ms at which it counts as dead
-- ARGV[1] token  text
-- ARGV[2] handoff_ms  milliseconds of the lease that the next waiter gets
-- ARGV[3] fair  1: hand over; 0: free the lock and tell the next waiter
-- DERIVED <lock>:bell:<token>
-- Returns 1: released
-- Returns 0: not held by this token
-- Cost: O(log waiters), plus O(log waiters) for each dead waiter it drops
local base, lock, fence, queue, alive = KEYS[1], KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, handoff_ms, fair = ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1"

if redis.call("GET", lock) ~= token then
  return 0
end
-- Nobody waits: the common case, with nothing else to do.
if redis.call("EXISTS", queue) == 0 then
  redis.call("DEL", lock)
  return 1
end
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include fence
-- @include turns
-- @include grant
-- @include hand_on

hand_on(handoff_ms, fair)
return 1
