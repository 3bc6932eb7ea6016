-- Add blocks of ranges to a load that is not visible yet.
-- Precondition: none.
-- KEYS[1] base  hash: the loaded ranges
-- DERIVED base:<generation>
-- ARGV[1] generation  of this load
-- ARGV[2] ttl_ms  milliseconds for which the load is kept after its last block
-- ARGV[3..] blocks  see blocks.py
-- Returns 1: added
-- Cost: O(n log blocks)
local base = KEYS[1]
local generation, ttl_ms = ARGV[1], ARGV[2]
local BLOCKS_FROM = 3

local key = base .. ":" .. generation
for at = BLOCKS_FROM, #ARGV do
  redis.call("ZADD", key, 0, ARGV[at])
end
redis.call("PEXPIRE", key, ttl_ms)
return 1
