-- Delete a filter, and a rebuild of it.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:build base:built base:parts base:<generation>:meta base:<generation>:<number>
-- Returns 1: deleted
-- Returns 0: there was none
-- Cost: O(layers)
local base = KEYS[1]
-- @include removing

local filter, build = read_filter(base, base .. ":meta"), read_build(base)
if build then
  remove(build, true)
end
if filter then
  remove(filter, false)
end
redis.call("UNLINK", base .. ":build", base .. ":built", base .. ":parts")
return (filter or build) and 1 or 0
