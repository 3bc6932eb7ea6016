-- Start a new generation beside the one that is read.
-- Precondition: the token is new.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:build root:dropping, and of each generation root:<number>: docs vocabulary
-- ARGV[1] token  opaque
-- ARGV[2] ttl_ms  milliseconds after which the rebuild expires without a further step
-- Returns 1: started, now or by a call whose reply was lost
-- Cost: O(1)
local root = KEYS[1]
local token, ttl_ms = ARGV[1], ARGV[2]
-- @include rebuild
-- @include generations

if begin_rebuild(root .. ":build", token, ttl_ms) then
  discard_building(root)
  redis.call("HSET", root .. ":state", "building", new_number(root))
end
return 1
