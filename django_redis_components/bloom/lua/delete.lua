-- Delete a filter, or a rebuild of it.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:build base:<generation>:<number>
-- ARGV[1] part  "meta" or "build"
-- ARGV[2] generation  the only one to delete; empty for any
-- Returns 1: deleted, or there was none
-- Cost: O(layers)
local base = KEYS[1]
local part, generation = ARGV[1], ARGV[2]
-- @include removing

local filter = read_filter(base, base .. ":" .. part)
if filter and (generation == "" or filter.generation == generation) then
  remove(filter, part == "build")
  if part == "build" then
    mark_newest(base, OPEN)
  end
end
return 1
