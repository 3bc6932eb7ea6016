-- End a failed rebuild, if it is still the active one. Its data are left to drop_generation.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:build root:dropping
-- ARGV[1] token  of the rebuild
-- Returns 1: ended
-- Returns 0: another rebuild is active, or none
-- Cost: O(1)
local root = KEYS[1]
local token = ARGV[1]
-- @include rebuild
-- @include generations

if not abandon_rebuild(root .. ":build", token) then
  return 0
end
discard_building(root)
return 1
