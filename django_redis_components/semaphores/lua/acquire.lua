-- Takes a permit if there is room and nobody stands before it in line. A permit that is held is granted
-- again with a full lease: a repetition after a lost reply, or the taking of a hand-off.
-- Precondition: the permit counts for no more than its own limit.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] queue  zset: waiting permit -> ticket
-- KEYS[3] alive  zset: waiting permit -> server time in ms at which it counts as dead
-- KEYS[4] limit  string: the limit that was set for all
-- ARGV[1] permit  text: <id>:<count>:<limit>
-- ARGV[2] ttl_ms  milliseconds of the lease
-- ARGV[3] patience_ms  milliseconds until the next question; 0: do not wait, leave the line
-- ARGV[4] handoff_ms  milliseconds of a lease that is handed to another
-- DERIVED <holders>:bell:<permit>
-- Returns {1, 0}: granted
-- Returns {0, n}: refused; ask again within n milliseconds (without patience: the limit in force)
-- Returns {-1, n}: refused for good, because it wants more than the limit in force, which is n
-- Cost: O(log permits) for each permit that is counted, granted, or found expired
local base, holders, queue, alive = KEYS[1], KEYS[1], KEYS[2], KEYS[3]
local limit = KEYS[4]
local permit, ttl_ms, patience_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local handoff_ms = tonumber(ARGV[4])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include permits

local held = redis.call("ZSCORE", holders, permit)
if held then
  -- A hand-off gets the lease that was asked for; a longer one is a refreshed one, and stays.
  local left_ms = held - now_ms
  grant(permit, left_ms > handoff_ms and math.max(left_ms, ttl_ms) or ttl_ms)
  return { 1, 0 }
end
-- Nobody waits: the common case, with nothing else to do.
if redis.call("EXISTS", queue) == 0 and is_room(permit) then
  grant(permit, ttl_ms)
  return { 1, 0 }
end
-- @include turns
-- @include serve

local _, most = wanted(permit)
if is_too_great(permit) then
  leave(permit)
  serve(nil)
  return { -1, most }
end
if serve(permit) then
  grant(permit, ttl_ms)
  return { 1, 0 }
end
if patience_ms == 0 then
  leave(permit)
  serve(nil) -- it may have stood before some who want less
  return { 0, most }
end
-- A holder may die without a release. Whoever stands further back asks later, not all at once.
local rank = join(permit, patience_ms)
local ends = redis.call("ZRANGE", holders, 0, 0, "WITHSCORES")[2]
return { 0, math.min(ends - now_ms + 1 + 2 * rank, handoff_ms) }
