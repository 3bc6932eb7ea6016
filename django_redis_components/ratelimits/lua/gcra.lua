-- Count a hit by the generic cell rate algorithm, in all rates or in none.
-- The record of a rate stores its theoretical arrival time: the time at which the full limit is available again, in
-- microseconds and a remainder in units of 1/limit. Intervals are rational, so no rate drifts. A hit adds its cost to
-- that time; it is denied if the result is more than a period ahead.
-- Precondition: all rates have the same algorithm.
-- KEYS[1] penalty  list: denials or a block, see shared/penalties.lua
-- KEYS[2..] rates  string: a record for each rate
-- ARGV[1] id  8 bytes that identify the hit; empty: count nothing
-- ARGV[2] denials  denials that start a block; 0: no penalty; negative: a denial of this call is not counted
-- ARGV[3] block_us  microseconds, length of a block
-- ARGV[4..] numbers  for each rate: limit, period_us, cost in whole microseconds and its remainder in 1/limit
-- Returns {1, ahead, remainder, ...}: allowed; for each rate its time relative to now, in microseconds and 1/limit
-- Returns {0, ahead, remainder, ...}: denied, nothing counted
-- Returns {-1, us}: blocked by the penalty, microseconds left
-- Returns {-2, us, author}: blocked by an operator, microseconds left
-- Cost: O(rates)
local penalty = KEYS[1]
local id, denials, block_us = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include counting

local function evaluate(index, full_us, remainder)
  local base = 4 * (index - 1)
  local limit, period_us = tonumber(ARGV[base]), tonumber(ARGV[base + 1])
  if not full_us or full_us < now_us then
    full_us, remainder = now_us, 0
  end
  local next_us, next_remainder = full_us + ARGV[base + 2], remainder + ARGV[base + 3]
  if next_remainder >= limit then
    next_us, next_remainder = next_us + 1, next_remainder - limit
  end
  local ahead_us = next_us - now_us
  local fits = ahead_us < period_us or (ahead_us == period_us and next_remainder == 0)
  return fits, full_us, remainder, next_us, next_remainder, ahead_us + 1
end

return count_hit(penalty, KEYS, id, denials, block_us, now_us, evaluate)
