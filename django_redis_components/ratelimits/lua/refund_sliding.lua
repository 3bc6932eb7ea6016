-- Refund the latest hits in all rates, never more than were used. While the key is blocked, nothing is
-- refunded.
-- Precondition: none.
-- KEYS[1..] logs  zset: hit -> time in microseconds, for each rate
-- ARGV[1] cost  hits to refund
-- Returns 1: done
-- Cost: O(log limit + cost) for each rate
local cost = tonumber(ARGV[1])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include log_block

for _, log in ipairs(KEYS) do
  local _, member, ends_us = read_newest(log)
  if not ends_us or ends_us <= now_us then
    if ends_us then
      redis.call("ZREM", log, member)
    end
    redis.call("ZREMRANGEBYRANK", log, -cost, -1)
  end
end
return 1
