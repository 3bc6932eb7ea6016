-- Add visitors to several periods.
-- Precondition: at least one id, at most 1,000; safe to repeat.
-- KEYS[1..] periods  string: HyperLogLog of visitors
-- ARGV[1..] parts  for each period: milliseconds, TTL from this write on; then the ids, opaque
-- Returns 1: added or counted before
-- Cost: O(n) in the ids and the periods
for number, period in ipairs(KEYS) do
  redis.call("PFADD", period, unpack(ARGV, #KEYS + 1))
  redis.call("PEXPIRE", period, ARGV[number])
end
return 1
