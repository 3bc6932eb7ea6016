-- Add visitors to a day.
-- Precondition: at least one id, at most 1,000; safe to repeat.
-- KEYS[1] day  string: HyperLogLog of visitors
-- ARGV[1] ttl_ms  milliseconds, TTL from this write on
-- ARGV[2..] ids  opaque
-- Returns 1: added or counted before
-- Cost: O(n) in the ids
local day = KEYS[1]
local ttl_ms = ARGV[1]
redis.call("PFADD", day, unpack(ARGV, 2))
redis.call("PEXPIRE", day, ttl_ms)
return 1
