-- Takes a permit if there is room and no waiter is before it in the queue. A permit that is held is granted again: a
-- repetition after a lost reply, whose lease is only lengthened, or the taking of a hand-off.
-- Precondition: the permit counts for no more than its own limit.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] queue  zset: waiting permit -> ticket
-- KEYS[3] limit  string: the limit that was set for all
-- ARGV[1] permit  text: <id>:<count>:<limit>
-- ARGV[2] ttl_ms  milliseconds of the lease
-- ARGV[3] wait  1: take a place in the queue when refused; 0: leave it
-- ARGV[4] handoff_ms  milliseconds of a lease that is handed to another
-- DERIVED <holders>:asked, <holders>:paused, <holders>:handoffs, <holders>:probes, <holders>:wakeup
-- DERIVED <holders>:wakeup:<permit>
-- Returns {1, 0}: granted
-- Returns {0, n, m}: refused; ask again within n milliseconds (0 without waiting); the limit in force is m
-- Returns {-1, 0, m}: refused for good, because it wants more than the limit in force, which is m
-- Cost: O(log permits) for each permit that is counted, granted, or found expired
local base, holders, queue, limit = KEYS[1], KEYS[1], KEYS[2], KEYS[3]
local permit, ttl_ms, wait = ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1"
local handoff_ms = tonumber(ARGV[4])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include permits

-- No waiter and no hand-off: the common case, with nothing else to do.
local held = redis.call("ZSCORE", holders, permit)
if not held and redis.call("EXISTS", queue, base .. ":handoffs") == 0 and is_room(permit) then
  grant(permit, ttl_ms)
  return { 1, 0 }
end
-- @include permit_queue

if held then
  grant(permit, take(permit) and ttl_ms or math.max(held - now_ms, ttl_ms))
  return { 1, 0 }
end
local _, most = wanted(permit)
if is_too_great(permit) then
  leave(permit)
  serve()
  watch_handoffs()
  return { -1, 0, most }
end
join(permit)
review()
local granted = serve(permit, ttl_ms)
if granted then
  watch_handoffs()
  return { 1, 0 }
end
if not wait then
  leave(permit)
  serve() -- it may have been before some who want less
  watch_handoffs()
  return { 0, 0, most }
end
-- A holder may die without a release.
local ends = redis.call("ZRANGE", holders, 0, 0, "WITHSCORES")[2]
return { 0, pause_ms(permit, ends and ends - now_ms or -1), most }
