-- Gives back what a hit has used, in all rates; never more than was used.
-- Precondition: none.
-- KEYS[1..] rates  string: a record for each rate, see gcra.lua
-- ARGV[1..] numbers  for each rate: limit, period, cost in whole microseconds, and its rest in units of 1/limit
-- Returns 1: done
-- Cost: O(rates)
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include record

for at = 1, #KEYS do
  local base = 4 * at - 3
  local free_us, rest, ids = read(KEYS[at])
  if free_us then
    free_us, rest = free_us - ARGV[base + 2], rest - ARGV[base + 3]
    if rest < 0 then
      free_us, rest = free_us - 1, rest + ARGV[base]
    end
    if free_us < now_us then
      redis.call("DEL", KEYS[at])
    else
      write(KEYS[at], free_us, rest, ids, free_us + 1 - now_us)
    end
  end
end
return 1
