-- Acquire the lock, unless another token holds it or is before this one in the queue. The holder's own token is granted
-- again: a repetition after a lost reply, whose lease is only extended, or the acceptance of a hand-off.
-- Precondition: none.
-- KEYS[1] lock  string: the holder's token
-- KEYS[2] fence  string: the last fencing token
-- KEYS[3] queue  zset: waiting token -> ticket
-- ARGV[1] token  text
-- ARGV[2] description  text that describes the caller
-- ARGV[3] ttl_ms  milliseconds of the lease
-- ARGV[4] wait  1: take a place in the queue when refused; 0: leave it
-- ARGV[5] handoff_ms  milliseconds of a lease that is handed to another
-- ARGV[6] fair  1: keep the order; 0: the first that asks acquires a free lock
-- DERIVED <lock>:asked, <lock>:paused, <lock>:handoffs, <lock>:probes, <lock>:wakeup, <lock>:wakeup:<token>
-- DERIVED <lock>:holder:<token>
-- Returns {n, 0}: n above 0, granted under the fencing token n
-- Returns {0, n}: refused; ask again within n milliseconds (0 without waiting)
-- Cost: O(log waiters), plus O(log waiters) for each waiter that is probed or passed over
local lock, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local token, description, ttl_ms, wait = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == "1"
local handoff_ms, fair = tonumber(ARGV[5]), ARGV[6] == "1"
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include fence

-- No waiter and no hand-off: the common case, with nothing else to do.
local holder
if redis.call("EXISTS", queue, lock .. ":handoffs") == 0 then
  holder = redis.call("SET", lock, token, "NX", "GET", "PX", ttl_ms)
  if not holder then
    redis.call("SET", lock .. ":holder:" .. token, description, "PX", ttl_ms)
    return { next_fence(fence, now_us, ttl_ms), 0 }
  end
  if holder ~= token and not wait then
    return { 0, 0 }
  end
else
  holder = redis.call("GET", lock)
end
-- @include plain
-- @include holder

local ctx, waiters = open_lock(lock, fence, queue, handoff_ms, now_us)
if holder == token then
  if accept_handoff(waiters, token) then
    redis.call("PEXPIRE", lock, ttl_ms)
  else
    redis.call("PEXPIRE", lock, ttl_ms, "GT")
  end
  describe(lock, token, description, math.max(ttl_ms, redis.call("PTTL", lock)))
  keep_fence(fence, ttl_ms)
  return { tonumber(redis.call("GET", fence) or next_fence(fence, now_us, ttl_ms)), 0 }
end
join(waiters, token)
review(waiters)
local number
if not fair and fits(ctx) then
  leave(waiters, token)
  number = grant(ctx, token, ttl_ms)
else
  number = serve(waiters, token, ttl_ms)
end
if number then
  describe(lock, token, description, ttl_ms)
  return { number, 0 }
end
if not wait then
  leave(waiters, token)
  watch_handoffs(waiters)
  return { 0, 0 }
end
return { 0, pause_ms(waiters, token, redis.call("PTTL", lock)) }
