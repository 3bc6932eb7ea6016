-- Start a rebuild beside the index.
-- Precondition: the token is new.
-- KEYS[1] build  string: token of the active rebuild
-- KEYS[2..] rest  other keys of a rebuild: zset, zset, hash, set
-- ARGV[1] token  opaque
-- ARGV[2] ttl_ms  milliseconds after which the rebuild expires without a further step
-- Returns 1: started, now or by a call whose reply was lost
-- Cost: O(1); the server frees the old keys in the background
local build = KEYS[1]
local token = ARGV[1]
local ttl_ms = ARGV[2]
-- @include rebuild

if begin_rebuild(build, token, ttl_ms) then
  redis.call("UNLINK", unpack(KEYS, 2))
end
return 1
