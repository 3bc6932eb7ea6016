-- Refund a hit in all rates, never more than was used. While the key is blocked, nothing is refunded. Windows that have ended are not changed.
-- Precondition: none.
-- KEYS[1..] rates  string: a record for each rate, see fixed.lua
-- ARGV[1] cost  the cost of the hit
-- ARGV[2..] numbers  for each rate: limit, period in microseconds
-- Returns 1: done
-- Cost: O(rates)
local cost = tonumber(ARGV[1])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include record

for index = 1, #KEYS do
  local start_us, used, ids = read_record(KEYS[index], now_us)
  local left_us = start_us and start_us + ARGV[2 * index + 1] - now_us
  if left_us and left_us > 0 then
    write_record(KEYS[index], now_us, start_us, math.max(0, used - cost), ids, left_us)
  end
end
return 1
