-- Takes the lock, unless another token holds it or stands before this one in line. The holder's own
-- token is granted again with a full lease: a repetition after a lost reply, or the taking of a hand-off.
-- Precondition: none.
-- KEYS[1] lock  string: the holder's token
-- KEYS[2] fence  string: the last fencing token
-- KEYS[3] queue  zset: waiting token -> ticket
-- KEYS[4] alive  zset: waiting token -> server time in ms at which it counts as dead
-- ARGV[1] token  text
-- ARGV[2] ttl_ms  milliseconds of the lease
-- ARGV[3] patience_ms  milliseconds until the next question; 0: do not wait, leave the line
-- ARGV[4] handoff_ms  milliseconds of a lease that is handed to another
-- ARGV[5] fair  1: keep the line; 0: whoever comes to a free lock has it
-- DERIVED <lock>:bell:<token>
-- Returns {n, 0}: n above 0, granted under the fencing token n
-- Returns {0, n}: refused; ask again within n milliseconds (0 without patience)
-- Cost: O(log waiters), plus O(log waiters) for each dead waiter it drops
local base, lock, fence, queue, alive = KEYS[1], KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, patience_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local handoff_ms, fair = tonumber(ARGV[4]), ARGV[5] == "1"
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include fence

-- Nobody waits: the common case, with nothing else to do.
local holder
if redis.call("EXISTS", queue) == 0 then
  holder = redis.call("SET", lock, token, "NX", "GET", "PX", ttl_ms)
  if not holder then
    return { next_fence(ttl_ms), 0 }
  end
else
  holder = redis.call("GET", lock)
end
local now_ms = math.floor(now_us / 1000)
-- @include turns
-- @include grant

if holder == token then
  -- A hand-off gets the lease that was asked for; a longer one is an extended one, and stays.
  local left_ms = redis.call("PTTL", lock)
  redis.call("PEXPIRE", lock, left_ms > handoff_ms and math.max(left_ms, ttl_ms) or ttl_ms)
  keep_fence(fence, ttl_ms)
  return { tonumber(redis.call("GET", fence) or next_fence(ttl_ms)), 0 }
end
if not holder then
  local first = head()
  if not first or first == token or not fair then
    if first then
      leave(token)
    end
    return { grant(token, ttl_ms), 0 }
  end
  hand_over(first, handoff_ms)
end
if patience_ms == 0 then
  leave(token)
  return { 0, 0 }
end
-- The holder may die without a release. Whoever stands further back asks later, not all at once.
local rank = join(token, patience_ms)
local left_ms = redis.call("PTTL", lock)
if left_ms < 0 then
  return { 0, handoff_ms }
end
return { 0, math.min(left_ms + 1 + 2 * rank, handoff_ms) }
