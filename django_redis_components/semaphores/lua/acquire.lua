-- Acquire a permit if one is free and no waiter is before it in the queue. A permit that is held is granted again: a
-- repetition after a lost reply, whose lease is only extended, or the acceptance of a hand-off.
-- Precondition: the permit counts for no more than its own limit.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] queue  zset: waiting permit -> ticket
-- KEYS[3] limit  string: the limit that was set for all
-- ARGV[1] permit  text: <id>:<count>:<limit>
-- ARGV[2] description  text that describes the caller
-- ARGV[3] ttl_ms  milliseconds of the lease
-- ARGV[4] wait  1: take a place in the queue when refused; 0: leave it
-- ARGV[5] handoff_ms  milliseconds of a lease that is handed to another
-- DERIVED <holders>:asked, <holders>:paused, <holders>:handoffs, <holders>:probes, <holders>:wakeup
-- DERIVED <holders>:wakeup:<permit>, <holders>:holder:<permit>
-- Returns {1, 0}: granted
-- Returns {0, n, m}: refused; ask again within n milliseconds (0 without waiting); the limit in force is m
-- Returns {-1, 0, m}: refused for good, because it wants more than the limit in force, which is m
-- Cost: O(log permits) for each permit that is counted, granted, or found expired
local holders, queue, limit = KEYS[1], KEYS[2], KEYS[3]
local permit, description, ttl_ms, wait = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == "1"
local handoff_ms = tonumber(ARGV[5])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

-- No waiter and no hand-off: the common case, with nothing else to do.
redis.call("ZREMRANGEBYSCORE", holders, "-inf", now_ms)
if redis.call("EXISTS", queue, holders .. ":handoffs") == 0 then
  local count, own_limit = string.match(permit, ":(%d+):(%d+)$")
  local others = redis.call("ZCARD", holders)
  local has_room = others + count <= tonumber(redis.call("GET", limit) or own_limit)
  if has_room and redis.call("ZADD", holders, "NX", now_ms + ttl_ms, permit) == 1 then
    for number = 2, tonumber(count) do
      redis.call("ZADD", holders, now_ms + ttl_ms, permit .. "#" .. number)
    end
    redis.call("PEXPIRE", holders, ttl_ms, others == 0 and "NX" or "GT")
    redis.call("SET", holders .. ":holder:" .. permit, description, "PX", ttl_ms)
    return { 1, 0 }
  end
end
-- @include permits
-- @include permit_queue
-- @include holder

local ctx = open_permits(holders, limit, now_us, queue, handoff_ms)
local held = redis.call("ZSCORE", holders, permit)
local waiters = open_permit_queue(ctx)
if held then
  local lease_ms = accept_handoff(waiters, permit) and ttl_ms or math.max(held - ctx.now_ms, ttl_ms)
  grant(ctx, permit, lease_ms)
  describe(holders, permit, description, lease_ms)
  return { 1, 0 }
end
local _, in_force = count_and_limit(ctx, permit)
if exceeds_limit(ctx, permit) then
  leave(waiters, permit)
  serve(waiters)
  watch_handoffs(waiters)
  return { -1, 0, in_force }
end
join(waiters, permit)
review(waiters)
if serve(waiters, permit, ttl_ms) then
  describe(holders, permit, description, ttl_ms)
  watch_handoffs(waiters)
  return { 1, 0 }
end
if not wait then
  leave(waiters, permit)
  serve(waiters) -- the caller may have been before waiters that want less
  watch_handoffs(waiters)
  return { 0, 0, in_force }
end
-- A holder may die without a release.
local ends = redis.call("ZRANGE", holders, 0, 0, "WITHSCORES")[2]
return { 0, pause_ms(waiters, permit, ends and ends - ctx.now_ms or -1), in_force }
