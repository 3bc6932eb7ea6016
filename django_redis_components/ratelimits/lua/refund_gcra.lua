-- Refund a hit in all rates, never more than was used. While the key is blocked, nothing is refunded.
-- Precondition: none.
-- KEYS[1..] rates  string: a record for each rate, see gcra.lua
-- ARGV[1..] numbers  for each rate: limit, period_us, cost in whole microseconds and its remainder in 1/limit
-- Returns 1: done
-- Cost: O(rates)
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include record

for index = 1, #KEYS do
  local base = 4 * index - 3
  local full_us, remainder, ids = read_record(KEYS[index], now_us)
  if full_us then
    full_us, remainder = full_us - ARGV[base + 2], remainder - ARGV[base + 3]
    if remainder < 0 then
      full_us, remainder = full_us - 1, remainder + ARGV[base]
    end
    if full_us < now_us then
      redis.call("DEL", KEYS[index])
    else
      write_record(KEYS[index], now_us, full_us, remainder, ids, full_us + 1 - now_us)
    end
  end
end
return 1
