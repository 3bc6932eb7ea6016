-- Remove all documents, an active rebuild and the stored results from view. The data are left to drop_generation.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:build root:built root:dropping root:gen root:results root:r:<result>, and of each generation root:<number>: docs
-- Returns 1: there were documents, or a rebuild
-- Returns 0: there was nothing
-- Cost: O(results), which are 500 at most
local root = KEYS[1]
-- @include generations
local state = root .. ":state"

local has_documents = redis.call("EXISTS", current_base(root) .. ":docs", root .. ":build") > 0
discard_building(root)
redis.call("SADD", root .. ":dropping", redis.call("HGET", state, "current") or "0")
redis.call("HSET", state, "current", new_number(root))
for _, name in ipairs(redis.call("ZRANGE", root .. ":results", 0, -1)) do
  redis.call("UNLINK", root .. ":r:" .. name, root .. ":r:" .. name .. ":about")
end
redis.call("UNLINK", root .. ":build", root .. ":built", root .. ":gen", root .. ":results")
return has_documents and 1 or 0
