-- Release the lock and hand it off to the first waiter.
-- Precondition: none; a token that does not hold the lock changes nothing.
-- KEYS[1] lock  string: the holder's token
-- KEYS[2] fence  string: the last fencing token
-- KEYS[3] queue  zset: waiting token -> ticket
-- ARGV[1] token  text
-- ARGV[2] released_by  text: the operator of a forced release; empty: the holder releases it
-- ARGV[3] handoff_ms  milliseconds of the lease that the next waiter gets
-- ARGV[4] fair  1: hand off; 0: free the lock and wake a waiter
-- DERIVED <lock>:asked, <lock>:paused, <lock>:handoffs, <lock>:probes, <lock>:wakeup, <lock>:wakeup:<token>
-- DERIVED <lock>:holder:<token>
-- Returns 2: released and handed off while others wait: `confirm` must follow
-- Returns 1: released
-- Returns 0: not held by this token
-- Cost: O(log waiters), plus O(log waiters) for each waiter that is passed over
local lock, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local token, released_by, handoff_ms, fair = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == "1"

if redis.call("GET", lock) ~= token then
  return 0
end
if released_by == "" then
  redis.call("DEL", lock, lock .. ":holder:" .. token)
  -- No waiter: the common case, with nothing else to do.
  if redis.call("EXISTS", queue) == 0 then
    return 1
  end
end
local time = redis.call("TIME")
-- @include plain
-- @include holder

if released_by ~= "" then
  redis.call("DEL", lock)
  mark_released(lock, token, released_by)
end
local _, waiters = open_lock(lock, fence, queue, handoff_ms, time[1] * 1000000 + time[2])
pass_on(waiters, fair)
return waiters.has_offered and redis.call("EXISTS", queue) == 1 and 2 or 1
