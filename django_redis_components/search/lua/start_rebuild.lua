-- Start a new generation next to the one that is read. It supersedes another one that is being built.
-- Precondition: the token is new.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:dropping, and of each generation root:<number>: docs vocabulary
-- ARGV[1] token  opaque
-- ARGV[2] ttl_ms  milliseconds after which the rebuild is abandoned without a renewal
-- Returns n > 0: number of the generation, now or by a call whose reply was lost
-- Cost: O(1)
local root = KEYS[1]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])
-- @include generations
local state = root .. ":state"

local building = redis.call("HGET", state, "building")
if building and redis.call("HGET", state, "token") == token then
  return tonumber(building)
end
if building then
  redis.call("SADD", root .. ":dropping", building)
end
-- If the state was lost, the numbers start again: those whose data is still there are passed over.
local number
repeat
  number = redis.call("HINCRBY", state, "last", 1)
until redis.call("EXISTS", root .. ":" .. number .. ":docs", root .. ":" .. number .. ":vocabulary") == 0
redis.call("HSET", state, "building", number, "token", token, "expires_ms", time_ms() + ttl_ms)
return number
