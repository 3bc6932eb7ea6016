-- Create an empty filter, or start to rebuild one.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the filter
-- DERIVED base:meta base:build base:<generation>:<number>
-- ARGV[1] part  "meta"; "build" replaces a rebuild that is active
-- ARGV[2] parameters  of the filter
-- ARGV[3] generation  part of the keys of the layers
-- ARGV[4] layout  bits, hashes and capacity of each layer
-- ARGV[5] ttl_ms  milliseconds for which a rebuild is kept
-- Returns 1: created
-- Returns 2: it exists
-- Cost: O(bits of the first layer)
local base = KEYS[1]
local part, parameters, generation, layout, ttl_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- @include adding
-- @include removing

local meta = base .. ":" .. part
local existing = read_filter(base, meta)
if existing and (part == "meta" or existing.generation == generation) then
  return 2
elseif existing then
  remove(existing, true)
end
redis.call("HSET", meta, "parameters", parameters, "generation", generation, "layers", 1, "layout", layout)
local layer = read_filter(base, meta).layers[1]
allocate(layer, part == "meta" and redis.call("EXISTS", base .. ":build") == 1 and REBUILDING or OPEN)
if part == "build" then
  redis.call("PEXPIRE", meta, ttl_ms)
  redis.call("PEXPIRE", layer.key, ttl_ms)
  mark_newest(base, REBUILDING)
end
return 1
