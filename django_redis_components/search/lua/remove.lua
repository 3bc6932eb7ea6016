-- Remove a document.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:build root:gen root:dropping, and of each generation root:<number>: live docs facets stats vocabulary names geo w:<term> s:<sort> f:<facet>
-- ARGV[1] id  text
-- Returns 1: removed
-- Returns 2: it did not exist
-- Cost: O(terms of the document) times O(log n)
local root = KEYS[1]
local id = ARGV[1]
-- @include generations
-- @include documents

local current, building, until_ms = written_bases(root)
local is_removed = drop(current, id, {})
if is_removed then
  redis.call("ZREM", current .. ":geo", id)
  redis.call("INCR", root .. ":gen")
end
if building then
  drop(building, id, {})
  redis.call("ZREM", building .. ":geo", id)
  redis.call("SADD", building .. ":live", id)
  expire_keys(common_keys(building), until_ms)
end
return is_removed and 1 or 2
