-- Leave the queue without waiting any longer, and pass the lock on if it was just granted.
-- Precondition: none.
-- KEYS[1] lock  string: the holder's token
-- KEYS[2] fence  string: the last fencing token
-- KEYS[3] queue  zset: waiting token -> ticket
-- ARGV[1] token  text
-- ARGV[2] handoff_ms  milliseconds of the lease that the next waiter gets
-- ARGV[3] fair  1: hand off; 0: free the lock and wake a waiter
-- DERIVED <lock>:asked, <lock>:paused, <lock>:handoffs, <lock>:probes, <lock>:wakeup, <lock>:wakeup:<token>
-- DERIVED <lock>:holder:<token>
-- Returns 1: it waited, or held the lock
-- Returns 0: it did neither
-- Cost: O(log waiters), plus O(log waiters) for each waiter that is probed or passed over
local lock, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local token, handoff_ms, fair = ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1"
local time = redis.call("TIME")
-- @include plain
-- @include holder

local ctx, waiters = open_lock(lock, fence, queue, handoff_ms, time[1] * 1000000 + time[2])
local waited, held = leave(waiters, token), holds(ctx, token)
redis.call("DEL", wakeup_of(lock, token), holder_of(lock, token))
if held then
  revoke(ctx)
end
review(waiters) -- the caller may have read the shared wakeup, by which another waiter was to do this
if fits(ctx) then
  pass_on(waiters, fair)
end
watch_handoffs(waiters)
return (waited or held) and 1 or 0
