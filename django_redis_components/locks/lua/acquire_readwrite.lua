-- Lets a reader in beside other readers, or a writer alone, unless another is before it in the queue. A token that is in
-- already is let in again: a repetition after a lost reply, whose lease is only lengthened, or the taking of a hand-off.
-- Precondition: the token ends in ":r" for a reader, in ":w" for a writer.
-- KEYS[1] writer  string: the writer's token
-- KEYS[2] readers  zset: reader's token -> server time in ms at which its lease ends
-- KEYS[3] fence  string: the last fencing token of a writer
-- KEYS[4] queue  zset: waiting token -> ticket
-- ARGV[1] token  text
-- ARGV[2] ttl_ms  milliseconds of the lease
-- ARGV[3] wait  1: take a place in the queue when refused; 0: leave it
-- ARGV[4] handoff_ms  milliseconds of a lease that is handed to another
-- DERIVED <writer>:asked, <writer>:paused, <writer>:handoffs, <writer>:probes, <writer>:wakeup, <writer>:wakeup:<token>
-- Returns {n, 0}: n above 0, granted; to a writer under the fencing token n
-- Returns {0, n}: refused; ask again within n milliseconds (0 without waiting)
-- Cost: O(log readers + log waiters), plus as much for each that is probed, passed over or let in
local base, writer, readers, fence, queue = KEYS[1], KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, wait = ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1"
local handoff_ms = tonumber(ARGV[4])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include readwrite

-- No waiter and no hand-off: the common case, with nothing else to do.
local left_ms = left_of(token)
if not left_ms and redis.call("EXISTS", queue, base .. ":handoffs") == 0 then
  if fits(token) then
    return { grant(token, ttl_ms), 0 }
  end
  if not wait then
    return { 0, 0 }
  end
end
-- @include one_queue

-- Milliseconds after which those who are in are gone, if none of them leaves or lengthens its lease.
local function longest_ms()
  local left_ms = redis.call("PTTL", writer)
  if left_ms == -2 and not reads(token) then
    local last = redis.call("ZRANGE", readers, -1, -1, "WITHSCORES")[2]
    left_ms = last and tonumber(last) - now_ms or -2
  end
  return left_ms
end

if left_ms then
  set_lease(token, take(token) and ttl_ms or math.max(left_ms, ttl_ms))
  if not reads(token) then
    keep_fence(fence, ttl_ms)
  end
  return { reads(token) and 1 or tonumber(redis.call("GET", fence) or next_fence(ttl_ms)), 0 }
end
join(token)
review()
local number = serve(token, ttl_ms)
if number then
  watch_handoffs()
  return { number, 0 }
end
if not wait then
  leave(token)
  serve() -- it may have been before some who can go in
  watch_handoffs()
  return { 0, 0 }
end
return { 0, pause_ms(token, longest_ms()) }
