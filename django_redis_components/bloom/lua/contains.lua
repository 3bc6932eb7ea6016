-- Look items up.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:<generation>:<number>
-- ARGV[1] parameters  of the filter
-- ARGV[2] items  12 bytes each
-- Returns text: "1" for an item that is in the filter, with the probability of an error, "0" for one that is not
-- Returns -1 and the stored parameters: they differ
-- Returns 0: there is no filter
-- Cost: O(items) times O(layers)
local base = KEYS[1]
local parameters, items = ARGV[1], ARGV[2]
-- @include layers

local filter = read_filter(base, base .. ":meta")
if not filter then
  return 0
elseif filter.parameters ~= parameters then
  return { -1, filter.parameters }
end
local hashes, numbers, replies = read_items(items), {}, {}
for number = 1, hashes.count do
  numbers[number], replies[number] = number, "1"
end
for _, number in ipairs(absent_from(filter, hashes, numbers, 1, filter.count)) do
  replies[number] = "0"
end
return table.concat(replies)
