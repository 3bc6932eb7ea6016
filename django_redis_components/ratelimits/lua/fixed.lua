-- Count a hit in fixed windows, in all rates or in none. A window starts with its first hit.
-- Precondition: all rates have the same algorithm.
-- KEYS[1] penalty  list: denials or a block, see shared/penalties.lua
-- KEYS[2..] rates  string: a record for each rate: start of the window, hits used
-- ARGV[1] id  8 bytes that identify the hit; empty: count nothing
-- ARGV[2] denials  denials that start a block; 0: no penalty; negative: a denial of this call is not counted
-- ARGV[3] block_us  microseconds, length of a block
-- ARGV[4] cost  hits, the cost of this one
-- ARGV[5..] numbers  for each rate: limit, period in microseconds
-- Returns {1, start, used, ...}: allowed; for each rate the start of its window relative to now in microseconds
--   (0 or negative), and the hits used
-- Returns {0, start, used, ...}: denied, nothing counted
-- Returns {-1, us}: blocked by the penalty, microseconds left
-- Returns {-2, us, author}: blocked by an operator, microseconds left
-- Cost: O(rates)
local penalty = KEYS[1]
local id, denials, block_us = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local cost = tonumber(ARGV[4])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include counting

local function evaluate(index, start_us, used)
  local limit, period_us = tonumber(ARGV[2 * index + 1]), tonumber(ARGV[2 * index + 2])
  if not start_us or start_us + period_us <= now_us then
    start_us, used = now_us, 0
  end
  return used + cost <= limit, start_us, used, start_us, used + cost, start_us + period_us - now_us
end

return count_hit(penalty, KEYS, id, denials, block_us, now_us, evaluate)
