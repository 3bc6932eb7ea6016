-- Delete some keys of a generation that is not read any more; after the last one, the state of an index without documents.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:dropping, and of each generation root:<number>: live docs facets stats vocabulary names geo w:<term> s:<sort> f:<facet>
-- ARGV[1] limit  keys to delete, at most 1,000
-- Returns 1: more are left
-- Returns 0: none is left
-- Cost: O(limit); the server frees the keys in the background
local root = KEYS[1]
local limit = tonumber(ARGV[1])
-- @include generations
-- @include dropping

local has_more = drop_keys(root, limit)
if has_more == 0 and not building_base(root) and redis.call("EXISTS", current_base(root) .. ":docs") == 0 then
  redis.call("UNLINK", root .. ":state")
end
return has_more
