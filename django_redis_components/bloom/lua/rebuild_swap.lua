-- Replace a filter with a finished rebuild, in one step.
-- Precondition: all items were loaded.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:build base:built base:<generation>:meta base:<generation>:<number>
-- ARGV[1] token  of this rebuild
-- Returns 1: replaced, now or by a call whose reply was lost
-- Returns -1: superseded, expired, or a server that evicts keys with a TTL has lost a layer
-- Cost: O(layers)
local base = KEYS[1]
local token = ARGV[1]
-- @include rebuild
-- @include removing
local build, built = base .. ":build", base .. ":built"

if is_built(built, token) then
  return 1
end
local new = is_active(build, token) and read_build(base)
if not new then
  return SUPERSEDED
end
for number = 1, new.count do
  if redis.call("GETRANGE", new.layers[number].key, 0, 0) ~= (number < new.count and CLOSED or OPEN) then
    return SUPERSEDED
  end
end
local former = read_filter(base, base .. ":meta")
if former then
  remove(former, false)
end
for number = 1, new.count do
  redis.call("PERSIST", new.layers[number].key)
end
redis.call("PERSIST", new.meta)
redis.call("RENAME", new.meta, base .. ":meta")
finish_rebuild(build, built, token)
return 1
