-- Start to load ranges that are not visible yet.
-- Precondition: the token is new.
-- KEYS[1] base  hash: the loaded ranges
-- DERIVED base:build base:<token>
-- ARGV[1] token  of this load, and generation of its blocks
-- ARGV[2] ttl_ms  milliseconds after which it expires without a further step
-- Returns 1: started, now or by a call whose reply was lost
-- Cost: O(1); the server frees the blocks of a superseded load in the background
local base = KEYS[1]
local token, ttl_ms = ARGV[1], ARGV[2]
-- @include rebuild

local former = redis.call("GET", base .. ":build")
if begin_rebuild(base .. ":build", token, ttl_ms) and former then
  redis.call("UNLINK", base .. ":" .. former)
end
return 1
