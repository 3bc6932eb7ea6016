-- Add items to a filter that is being rebuilt.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:build base:<generation>:meta base:<generation>:<number>
-- ARGV[1] token  of this rebuild
-- ARGV[2] ttl_ms  milliseconds after which it expires without a further step
-- ARGV[3] look  after how many items it is looked at whether it is full
-- ARGV[4] items  12 bytes each
-- Returns 1: added
-- Returns -1: superseded, or expired
-- Cost: O(items) times O(layers)
local base = KEYS[1]
local token, ttl_ms, look, items = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
-- @include rebuild
-- @include adding

local filter = renew_rebuild(base .. ":build", token, ttl_ms) and read_build(base)
if not filter then
  return SUPERSEDED
end
add_items(base, filter, read_items(items), look, 0, false)
filter = read_build(base)
for number = 1, filter.count do
  redis.call("PEXPIRE", filter.layers[number].key, ttl_ms)
end
redis.call("PEXPIRE", filter.meta, ttl_ms)
return 1
