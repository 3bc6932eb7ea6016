-- Delete some keys of a generation that is not read any more.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:dropping, and of each generation root:<number>: docs facets stats vocabulary names geo w:<term> s:<sort> f:<facet>
-- ARGV[1] limit  keys to delete, at most 1,000
-- Returns 1: more are left
-- Returns 0: none is left
-- Cost: O(limit); the server frees the keys in the background
local root = KEYS[1]
local limit = tonumber(ARGV[1])
-- @include dropping

return drop_keys(root, limit)
