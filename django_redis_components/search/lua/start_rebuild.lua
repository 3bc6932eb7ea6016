-- Start a new generation next to the one that is read. It supersedes another one that is being built.
-- Precondition: the token is new.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:dropping
-- ARGV[1] token  opaque
-- Returns n > 0: number of the generation, now or by a call whose reply was lost
-- Cost: O(1)
local root = KEYS[1]
local token = ARGV[1]
local state = root .. ":state"

local building = redis.call("HGET", state, "building")
if building and redis.call("HGET", state, "token") == token then
  return tonumber(building)
end
if building then
  redis.call("SADD", root .. ":dropping", building)
end
local number = redis.call("HINCRBY", state, "last", 1)
redis.call("HSET", state, "building", number, "token", token)
return number
