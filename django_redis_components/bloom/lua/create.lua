-- Create an empty filter.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:build base:<generation>:<number>
-- ARGV[1] parameters  of the filter
-- ARGV[2] generation  part of the keys of the layers
-- ARGV[3] layout  bits, hashes and capacity of each layer
-- Returns 1: created
-- Returns 2: it exists
-- Cost: O(bits of the first layer)
local base = KEYS[1]
local parameters, generation, layout = ARGV[1], ARGV[2], ARGV[3]
-- @include adding

local meta = base .. ":meta"
if read_filter(base, meta) then
  return 2
end
create_filter(base, meta, parameters, generation, layout, redis.call("EXISTS", base .. ":build") == 1 and REBUILDING or OPEN)
return 1
