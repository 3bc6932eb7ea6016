-- Add items, also to a filter that is being rebuilt.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:build base:<generation>:<number>
-- ARGV[1] parameters  of the filter
-- ARGV[2] items  12 bytes each
-- Returns text: "1" for an item that was new, "0" for one that was in the filter
-- Returns -1 and the stored parameters: they differ
-- Returns 0: there is no filter
-- Cost: O(items) times O(layers)
local base = KEYS[1]
local parameters, items = ARGV[1], ARGV[2]
-- @include adding

local filter = read_filter(base, base .. ":meta")
if not filter then
  return 0
elseif filter.parameters ~= parameters then
  return { -1, filter.parameters }
end
local hashes = read_items(items)
local is_new, replies = add_items(base, filter, hashes), {}
local build = read_filter(base, base .. ":build")
if build then
  add_items(base, build, hashes)
end
for number = 1, #hashes do
  replies[number] = is_new[number] and "1" or "0"
end
return table.concat(replies)
