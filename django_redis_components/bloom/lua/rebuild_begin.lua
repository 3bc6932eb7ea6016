-- Start to rebuild a filter.
-- Precondition: the token is new.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:build base:<generation>:meta base:<generation>:<number>
-- ARGV[1] token  of this rebuild, and generation of its layers
-- ARGV[2] ttl_ms  milliseconds after which it expires without a further step
-- ARGV[3] parameters  of the filter
-- ARGV[4] layout  bits, hashes and capacity of each layer
-- Returns 1: started, now or by a call whose reply was lost
-- Cost: O(bits of the first layer)
local base = KEYS[1]
local token, ttl_ms, parameters, layout = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- @include rebuild
-- @include adding
-- @include removing

local former = read_build(base)
if not begin_rebuild(base .. ":build", token, ttl_ms) then
  return 1
end
if former then
  remove(former, true)
end
local meta = base .. ":" .. token .. ":meta"
local filter = create_filter(base, meta, parameters, token, layout, OPEN)
redis.call("PEXPIRE", meta, ttl_ms)
redis.call("PEXPIRE", filter.layers[1].key, ttl_ms)
mark_newest(base, REBUILDING)
return 1
