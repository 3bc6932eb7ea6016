-- Gives back what a hit has used, in all rates; never more than was used, and nothing of a window that has ended.
-- Precondition: none.
-- KEYS[1..] rates  string: a record for each rate, see fixed.lua
-- ARGV[1] cost  what the hit has used
-- ARGV[2..] numbers  for each rate: limit, and its period in microseconds
-- Returns 1: done
-- Cost: O(rates)
local cost = tonumber(ARGV[1])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include record

for at = 1, #KEYS do
  local begin_us, used, ids = read(KEYS[at])
  local left_us = begin_us and begin_us + ARGV[2 * at + 1] - now_us
  if left_us and left_us > 0 then
    write(KEYS[at], begin_us, math.max(0, used - cost), ids, left_us)
  end
end
return 1
