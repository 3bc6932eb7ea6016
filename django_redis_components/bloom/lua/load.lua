-- Add items to a filter that is being rebuilt.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:build base:<generation>:<number>
-- ARGV[1] generation  of this rebuild
-- ARGV[2] ttl_ms  milliseconds for which it is kept
-- ARGV[3] look  after how many items it is looked at whether it is full
-- ARGV[4] items  12 bytes each
-- Returns 1: added
-- Returns -1: a later rebuild started, or this one expired
-- Cost: O(items) times O(layers)
local base = KEYS[1]
local generation, ttl_ms, look, items = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
-- @include adding

local build = base .. ":build"
local filter = read_filter(base, build)
if not filter or filter.generation ~= generation then
  return -1
end
add_items(base, filter, read_items(items), look, 0, false)
filter = read_filter(base, build)
for number = 1, filter.count do
  redis.call("PEXPIRE", filter.layers[number].key, ttl_ms)
end
redis.call("PEXPIRE", build, ttl_ms)
return 1
