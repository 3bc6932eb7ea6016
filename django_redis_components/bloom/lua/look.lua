-- Add a layer if the filter is full, and remove a layer that a client added bits to after the filter was removed.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:build base:<generation>:<number>
-- ARGV[1] generation  that the client knows; empty for none
-- Returns the estimated number of items of the newest layer, as text; empty if there is no filter
-- Cost: O(bits of the newest layer)
local base = KEYS[1]
local generation = ARGV[1]
-- @include adding

local filter = read_filter(base, base .. ":meta")
if generation ~= "" and (not filter or filter.generation ~= generation) then
  redis.call("UNLINK", base .. ":" .. generation .. ":0")
end
if not filter then
  return ""
end
filter = grow(base, filter, redis.call("EXISTS", base .. ":build") == 1)
return tostring(estimate(filter.layers[filter.count]))
