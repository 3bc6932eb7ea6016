-- Renew a rebuild, so that it is not abandoned.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state
-- ARGV[1] token  of the rebuild
-- ARGV[2] ttl_ms  milliseconds after which the rebuild is abandoned without a renewal
-- Returns 1: renewed
-- Returns -1: a later rebuild has started
-- Returns -2: the rebuild was abandoned
-- Cost: O(1)
local root = KEYS[1]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])
-- @include generations
local state = root .. ":state"

local found = redis.call("HMGET", state, "token", "building")
if found[1] ~= token then
  return found[1] and -1 or -2
end
if found[2] then
  redis.call("HSET", state, "expires_ms", time_ms() + ttl_ms)
end
return 1
