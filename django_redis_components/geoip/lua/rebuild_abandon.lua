-- Delete the blocks of a failed load, if it is still the active one.
-- Precondition: none.
-- KEYS[1] base  hash: the loaded ranges
-- DERIVED base:build base:<token>
-- ARGV[1] token  of the load
-- Returns 1: deleted
-- Returns 0: another load is active, or none
-- Cost: O(1); the server frees the blocks in the background
local base = KEYS[1]
local token = ARGV[1]
-- @include rebuild

if not abandon_rebuild(base .. ":build", token) then
  return 0
end
redis.call("UNLINK", base .. ":" .. token)
return 1
