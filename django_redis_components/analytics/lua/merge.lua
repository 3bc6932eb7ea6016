-- The HyperLogLog of the visitors of several days, as it stands in Redis (at most 12 KB).
-- Precondition: scratch is no key of anybody; it is gone again when the script ends.
-- KEYS[1] scratch  string: HyperLogLog
-- KEYS[2..] days  string: HyperLogLog, may be missing
-- Returns the string: the union
-- Cost: O(n) in the days
local scratch = KEYS[1]
redis.call("UNLINK", scratch)
redis.call("PFMERGE", scratch, unpack(KEYS, 2))
local sketch = redis.call("GET", scratch)
redis.call("UNLINK", scratch)
return sketch
