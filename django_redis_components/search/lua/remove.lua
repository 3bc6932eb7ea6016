-- Remove a document.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:gen root:dropping, and of each generation root:<number>: docs facets stats vocabulary names geo w:<term> s:<sort> f:<facet>
-- ARGV[1] id  text
-- Returns 1: removed
-- Returns 2: it did not exist
-- Cost: O(terms of the document) times O(log n)
local root = KEYS[1]
local id = ARGV[1]
-- @include generations
-- @include documents

local code = 2
for _, base in ipairs(written_bases(root)) do
  if drop(base, id, {}) then
    redis.call("ZREM", base .. ":geo", id)
    redis.call("INCR", root .. ":gen")
    code = 1
  end
end
return code
