-- Add blocks of ranges to a load that is not visible yet.
-- Precondition: none.
-- KEYS[1] base  hash: the loaded ranges
-- DERIVED base:build base:<token>
-- ARGV[1] token  of this load
-- ARGV[2] ttl_ms  milliseconds after which it expires without a further step
-- ARGV[3..] blocks  see blocks.py
-- Returns 1: added
-- Returns -1: superseded, or expired
-- Cost: O(n log blocks)
local base = KEYS[1]
local token, ttl_ms = ARGV[1], ARGV[2]
-- @include rebuild
local BLOCKS_FROM = 3

if not renew_rebuild(base .. ":build", token, ttl_ms) then
  return SUPERSEDED
end
local key = base .. ":" .. token
for index = BLOCKS_FROM, #ARGV do
  redis.call("ZADD", key, 0, ARGV[index])
end
redis.call("PEXPIRE", key, ttl_ms)
return 1
