-- Begins a rebuild beside the index. One that is under way is superseded: the later one reads later data.
-- Precondition: the token is new.
-- KEYS[1] build  string: token of the rebuild under way
-- KEYS[2..] rest  what a rebuild has: zset, zset, hash, set
-- ARGV[1] token  opaque
-- ARGV[2] ttl_ms  milliseconds that the rebuild lives without a further step
-- Returns 1: begun (or begun before, when the first reply was lost)
-- Cost: O(1); the server frees what was there in the background
local build = KEYS[1]
local token = ARGV[1]
local ttl_ms = ARGV[2]

if redis.call("GET", build) ~= token then
    redis.call("UNLINK", unpack(KEYS))
end
redis.call("SET", build, token, "PX", ttl_ms)
return 1
