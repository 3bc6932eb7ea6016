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

local number = redis.call("SRANDMEMBER", root .. ":dropping")
if not number then
  return 0
end
local base = root .. ":" .. number
local keys = {}
for at, item in ipairs(redis.call("ZPOPMIN", base .. ":vocabulary", limit)) do
  if at % 2 == 1 then
    keys[#keys + 1] = base .. ":w:" .. item
  end
end
if #keys == 0 then
  for _, name in ipairs(redis.call("SPOP", base .. ":names", limit)) do
    keys[#keys + 1] = base .. ":" .. name
  end
end
if #keys > 0 then
  redis.call("UNLINK", unpack(keys))
  return 1
end
redis.call("UNLINK", base .. ":docs", base .. ":facets", base .. ":stats", base .. ":geo")
redis.call("SREM", root .. ":dropping", number)
return redis.call("EXISTS", root .. ":dropping")
