-- Counts a hit by the generic cell rate algorithm, in all rates or in none.
-- The record of a rate holds the time at which it will be unused again, and the part of a microsecond beyond it, in
-- units of 1/limit: intervals are rational, so that no rate drifts. A hit moves that time by its cost, and is denied
-- where it would come to lie more than a period ahead.
-- Precondition: all rates have the same algorithm.
-- KEYS[1] penalty  string: a record, see shared/penalty.lua
-- KEYS[2..] rates  string: a record for each rate
-- ARGV[1] id  8 bytes that name the call; empty: look only, write nothing
-- ARGV[2] denials  how many of them lead to a block; 0: no penalty; below 0: this call counts none
-- ARGV[3] block_us  microseconds of a block
-- ARGV[4..] numbers  for each rate: limit, period, cost in whole microseconds, and its rest in units of 1/limit
-- Returns {1, ahead, rest, ...}: allowed; for each rate how far its time lies ahead, in microseconds and 1/limit
-- Returns {0, ahead, rest, ...}: denied, nothing was counted
-- Returns {-1, us}: blocked for so many microseconds
-- Cost: O(rates)
local penalty = KEYS[1]
local id, denials, block_us = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include record
-- @include penalty

local function step(at, free_us, rest)
  local base = 4 * (at - 1)
  local limit, period_us = tonumber(ARGV[base]), tonumber(ARGV[base + 1])
  if not free_us or free_us < now_us then
    free_us, rest = now_us, 0
  end
  local next_us, next_rest = free_us + ARGV[base + 2], rest + ARGV[base + 3]
  if next_rest >= limit then
    next_us, next_rest = next_us + 1, next_rest - limit
  end
  local ahead_us = next_us - now_us
  local fits = ahead_us < period_us or (ahead_us == period_us and next_rest == 0)
  return fits, free_us, rest, next_us, next_rest, ahead_us + 1
end
-- @include counting
