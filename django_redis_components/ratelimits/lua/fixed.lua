-- Counts a hit in windows that begin with the first hit in them, in all rates or in none.
-- Precondition: all rates have the same algorithm.
-- KEYS[1] penalty  string: a record, see shared/penalty.lua
-- KEYS[2..] rates  string: a record for each rate, the begin of its window and what was used in it
-- ARGV[1] id  8 bytes that name the call; empty: look only, write nothing
-- ARGV[2] denials  how many of them lead to a block; 0: no penalty; below 0: this call counts none
-- ARGV[3] block_us  microseconds of a block
-- ARGV[4] cost  what the hit uses
-- ARGV[5..] numbers  for each rate: limit, and its period in microseconds
-- Returns {1, begin, used, ...}: allowed; for each rate the begin of its window, in microseconds from now (0 or
--   below), and what is used of it
-- Returns {0, begin, used, ...}: denied, nothing was counted
-- Returns {-1, us}: blocked for so many microseconds
-- Cost: O(rates)
local penalty = KEYS[1]
local id, denials, block_us = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local cost = tonumber(ARGV[4])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include record
-- @include penalty

local function step(at, begin_us, used)
  local limit, period_us = tonumber(ARGV[2 * at + 1]), tonumber(ARGV[2 * at + 2])
  if not begin_us or begin_us + period_us <= now_us then
    begin_us, used = now_us, 0
  end
  return used + cost <= limit, begin_us, used, begin_us, used + cost, begin_us + period_us - now_us
end
-- @include counting
