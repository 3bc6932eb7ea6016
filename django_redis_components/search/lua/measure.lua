-- Measure an index.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:build root:dropping, and of each generation root:<number>: live docs facets stats vocabulary names geo
-- Returns number of documents, number of terms, weighted words of all documents as a string, whether a rebuild is running,
--   whether data of another generation is still to be deleted
-- Cost: O(1)
local root = KEYS[1]
-- @include generations

local base = current_base(root)
local is_running = redis.call("EXISTS", root .. ":build") == 1
local building = not is_running and building_base(root)
local has_old = redis.call("EXISTS", root .. ":dropping", unpack(building and common_keys(building) or {})) > 0
return {
  redis.call("HLEN", base .. ":docs"),
  redis.call("ZCARD", base .. ":vocabulary"),
  redis.call("HGET", base .. ":stats", "length") or "0",
  is_running and 1 or 0,
  has_old and 1 or 0,
}
