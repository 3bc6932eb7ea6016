-- Refund the latest hits in all rates, never more than were used.
-- Precondition: none.
-- KEYS[1..] logs  zset: hit -> time in microseconds, for each rate
-- ARGV[1] cost  hits to refund
-- Returns 1: done
-- Cost: O(log limit + cost) for each rate
local cost = tonumber(ARGV[1])

for _, log in ipairs(KEYS) do
  redis.call("ZREMRANGEBYRANK", log, -cost, -1)
end
return 1
