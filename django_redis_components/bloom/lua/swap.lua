-- Replace a filter with a finished rebuild, in one step.
-- Precondition: all items were loaded.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:build base:<generation>:<number>
-- ARGV[1] generation  of this rebuild
-- Returns 1: replaced, now or by a call whose reply was lost
-- Returns -1: a later rebuild started, or this one expired
-- Cost: O(layers)
local base = KEYS[1]
local generation = ARGV[1]
-- @include removing

local filter, build = read_filter(base, base .. ":meta"), read_filter(base, base .. ":build")
if filter and filter.generation == generation then
  return 1
elseif not build or build.generation ~= generation then
  return -1
end
if filter then
  remove(filter)
end
for number = 1, build.count do
  redis.call("PERSIST", build.layers[number].key)
end
redis.call("PERSIST", build.meta)
redis.call("RENAME", build.meta, base .. ":meta")
return 1
