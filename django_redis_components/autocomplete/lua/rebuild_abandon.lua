-- Drops a rebuild that failed half-way, if it is still the one under way.
-- Precondition: none.
-- KEYS[1] build  string: token of the rebuild under way
-- KEYS[2..] rest  what a rebuild has: zset, zset, hash, set
-- ARGV[1] token  opaque
-- Returns 1: dropped
-- Returns 0: it is not the one under way
-- Cost: O(1); the server frees what was there in the background
local build = KEYS[1]
local token = ARGV[1]

if redis.call("GET", build) ~= token then
    return 0
end
redis.call("UNLINK", unpack(KEYS))
return 1
