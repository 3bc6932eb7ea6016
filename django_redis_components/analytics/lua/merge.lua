-- Merge the HyperLogLogs of several days (at most 12 KB).
-- Precondition: scratch is not used otherwise; the script deletes it.
-- KEYS[1] scratch  string: HyperLogLog
-- KEYS[2..] days  string: HyperLogLog, may be missing
-- Returns a string: the union
-- Cost: O(n) in the days
local scratch = KEYS[1]
redis.call("UNLINK", scratch)
redis.call("PFMERGE", scratch, unpack(KEYS, 2))
local sketch = redis.call("GET", scratch)
redis.call("UNLINK", scratch)
return sketch
