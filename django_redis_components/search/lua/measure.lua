-- Measure an index.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state, and of the generation root:<number>: docs vocabulary stats
-- Returns number of documents, number of terms, weighted words of all documents as a string
-- Cost: O(1)
local root = KEYS[1]
-- @include generations

local base = current_base(root)
return {
  redis.call("HLEN", base .. ":docs"),
  redis.call("ZCARD", base .. ":vocabulary"),
  redis.call("HGET", base .. ":stats", "length") or "0",
}
