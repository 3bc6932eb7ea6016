-- Delete the layers of a failed rebuild, if it is still the active one.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:build base:<generation>:meta base:<generation>:<number>
-- ARGV[1] token  of the rebuild
-- Returns 1: deleted
-- Returns 0: another rebuild is active, or none
-- Cost: O(layers)
local base = KEYS[1]
local token = ARGV[1]
-- @include rebuild
-- @include removing

local build = read_build(base)
if not abandon_rebuild(base .. ":build", token) then
  return 0
end
if build then
  remove(build, true)
end
mark_newest(base, OPEN)
return 1
