-- Add items, also to a filter that is being rebuilt.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:build base:<generation>:meta base:<generation>:<number>
-- ARGV[1] parameters  of the filter
-- ARGV[2] look  after how many items the filter is looked at whether it is full
-- ARGV[3] seen  generation of the filter to whose first layer the items were added already; empty for none
-- ARGV[4] was_new  0: the items were in that layer before, and only a rebuild gets them
-- ARGV[5] items  12 bytes each
-- Returns text: "1" for an item that was new, "0" for one that was in the filter
-- Returns -1 and the stored parameters: they differ
-- Returns 0: there is no filter
-- Cost: O(items) times O(layers)
local base = KEYS[1]
local parameters, look, seen, was_new, items = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == "1", ARGV[5]
-- @include adding

local filter = read_filter(base, base .. ":meta")
if not filter then
  return 0
elseif filter.parameters ~= parameters then
  return { -1, filter.parameters }
end
local hashes, build = read_items(items), read_build(base)
local newest = filter.layers[filter.count].key
if not build and redis.call("GETRANGE", newest, 0, 0) == REBUILDING then
  redis.call("SETRANGE", newest, 0, OPEN) -- the rebuild expired
end
local layers_seen = filter.generation == seen and 1 or 0
local is_new, replies = {}, {}
if was_new or layers_seen == 0 then
  is_new = add_items(base, filter, hashes, look, layers_seen, build)
end
if build then
  add_items(base, build, hashes, look, 0, false)
end
for number = 1, hashes.count do
  replies[number] = is_new[number] and "1" or "0"
end
return table.concat(replies)
