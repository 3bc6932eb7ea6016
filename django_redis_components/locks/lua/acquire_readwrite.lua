-- Grant a reader beside other readers, or a writer alone, unless another is before it in the queue. A token that has a
-- lease is granted again: a repetition after a lost reply, whose lease is only extended, or the acceptance of a hand-off.
-- Precondition: the token ends in ":r" for a reader, in ":w" for a writer.
-- KEYS[1] writer  string: the writer's token
-- KEYS[2] readers  zset: reader's token -> server time in ms at which its lease ends
-- KEYS[3] fence  string: the last fencing token of a writer
-- KEYS[4] queue  zset: waiting token -> ticket
-- ARGV[1] token  text
-- ARGV[2] description  text that describes the caller
-- ARGV[3] ttl_ms  milliseconds of the lease
-- ARGV[4] wait  1: take a place in the queue when refused; 0: leave it
-- ARGV[5] handoff_ms  milliseconds of a lease that is handed to another
-- DERIVED <writer>:asked, <writer>:paused, <writer>:handoffs, <writer>:probes, <writer>:wakeup, <writer>:wakeup:<token>
-- DERIVED <writer>:holder:<token>
-- Returns {n, 0}: n above 0, granted; to a writer under the fencing token n
-- Returns {0, n}: refused; ask again within n milliseconds (0 without waiting)
-- Cost: O(log readers + log waiters), plus as much for each waiter that is probed, passed over or granted
local writer, readers, fence, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, description, ttl_ms, wait = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == "1"
local handoff_ms = tonumber(ARGV[5])
local time = redis.call("TIME")
-- @include readwrite

local ctx = open_readwrite(writer, readers, fence, queue, handoff_ms, time[1] * 1000000 + time[2])
-- No waiter and no hand-off: the common case, with nothing else to do.
local left_ms = left_of(ctx, token)
if not left_ms and redis.call("EXISTS", queue, writer .. ":handoffs") == 0 then
  if fits(ctx, token) then
    redis.call("SET", writer .. ":holder:" .. token, description, "PX", ttl_ms)
    return { grant(ctx, token, ttl_ms), 0 }
  end
  if not wait then
    return { 0, 0 }
  end
end
-- @include readwrite_queue
-- @include holder

local waiters = open_readwrite_queue(ctx)

-- Return the milliseconds after which all leases that exclude the caller have expired, if none is extended.
local function longest_ms()
  local left_ms = redis.call("PTTL", writer)
  if left_ms == -2 and not is_reader(token) then
    local last = redis.call("ZRANGE", readers, "-1", "-1", "WITHSCORES")[2]
    left_ms = last and tonumber(last) - ctx.now_ms or -2
  end
  return left_ms
end

if left_ms then
  local lease_ms = accept_handoff(waiters, token) and ttl_ms or math.max(left_ms, ttl_ms)
  set_lease(ctx, token, lease_ms)
  describe(writer, token, description, lease_ms)
  if is_reader(token) then
    return { 1, 0 }
  end
  keep_fence(fence, ttl_ms)
  return { tonumber(redis.call("GET", fence) or next_fence(fence, ctx.now_us, ttl_ms)), 0 }
end
join(waiters, token)
review(waiters)
local number = serve(waiters, token, ttl_ms)
if number then
  describe(writer, token, description, ttl_ms)
  watch_handoffs(waiters)
  return { number, 0 }
end
if not wait then
  leave(waiters, token)
  serve(waiters) -- the caller may have been before waiters that can be granted
  watch_handoffs(waiters)
  return { 0, 0 }
end
return { 0, pause_ms(waiters, token, longest_ms()) }
