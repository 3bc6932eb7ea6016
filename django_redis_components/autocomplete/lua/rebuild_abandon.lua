-- Delete the data of a failed rebuild, if it is still the active one.
-- Precondition: none.
-- KEYS[1] build  string: token of the active rebuild
-- KEYS[2..] rest  other keys of a rebuild: zset, zset, hash, set
-- ARGV[1] token  opaque
-- Returns 1: deleted
-- Returns 0: another rebuild is active, or none
-- Cost: O(1); the server frees the keys in the background
local build = KEYS[1]
local token = ARGV[1]
-- @include rebuild

if not abandon_rebuild(build, token) then
  return 0
end
redis.call("UNLINK", unpack(KEYS, 2))
return 1
