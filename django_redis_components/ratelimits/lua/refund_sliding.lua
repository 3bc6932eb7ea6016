-- Gives back what the latest hits have used, in all rates; never more than was used.
-- Precondition: none.
-- KEYS[1..] logs  zset: unit -> time in microseconds, for each rate
-- ARGV[1] cost  how many units
-- Returns 1: done
-- Cost: O(log limit + cost) for each rate
local cost = tonumber(ARGV[1])

for _, log in ipairs(KEYS) do
  redis.call("ZREMRANGEBYRANK", log, -cost, -1)
end
return 1
