-- Read the generation that was built from now on, or abandon it. The other one is left to drop_generation.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:dropping root:gen
-- ARGV[1] token  of the rebuild
-- ARGV[2] keep  1: read the generation; 0: abandon it
-- Returns 1: done, now or by a call whose reply was lost
-- Returns -1: a later rebuild has started
-- Returns -2: the rebuild was abandoned, because its loader did not renew it
-- Cost: O(1)
local root = KEYS[1]
local token, keep = ARGV[1], ARGV[2] == "1"
local state = root .. ":state"

local found = redis.call("HMGET", state, "token", "building", "current")
if found[1] ~= token then
  return found[1] and -1 or -2
end
if not found[2] then
  return 1
end
redis.call("HDEL", state, "building", "expires_ms")
if keep then
  redis.call("HSET", state, "current", found[2])
  redis.call("SADD", root .. ":dropping", found[3] or "0")
  redis.call("INCR", root .. ":gen")
else
  redis.call("SADD", root .. ":dropping", found[2])
end
return 1
