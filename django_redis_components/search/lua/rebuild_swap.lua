-- Read the generation that was built from now on. The former one is left to drop_generation.
-- Precondition: every document was loaded, and rebuild_keep has made the generation permanent.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:build root:built root:dropping root:gen, and of each generation root:<number>: live docs
-- ARGV[1] token  of the rebuild
-- Returns n >= 0: documents in the index; the swap is done, now or by a call whose reply was lost
-- Returns -1: superseded, or expired
-- Cost: O(1); the server frees the set of ids in the background
local root = KEYS[1]
local token = ARGV[1]
-- @include rebuild
-- @include generations
local build, built, state = root .. ":build", root .. ":built", root .. ":state"

if not is_built(built, token) then
  local base = is_active(build, token) and building_base(root)
  if not base then
    return SUPERSEDED
  end
  redis.call("UNLINK", base .. ":live")
  redis.call("SADD", root .. ":dropping", redis.call("HGET", state, "current") or "0")
  redis.call("HSET", state, "current", redis.call("HGET", state, "building"))
  redis.call("HDEL", state, "building")
  redis.call("INCR", root .. ":gen")
  finish_rebuild(build, built, token)
end
return redis.call("HLEN", current_base(root) .. ":docs")
