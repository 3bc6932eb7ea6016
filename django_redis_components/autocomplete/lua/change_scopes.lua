-- Change the stored scopes of objects, each in one step: concurrent writers of an object keep the scopes of each other.
-- Precondition: no scope contains NUL.
-- KEYS[1] scopes  hash id -> scopes, separated by NUL
-- KEYS[2] all_scopes  set; scopes are added only: an entry may be left in one that no object has
-- ARGV[1..] changes  id, scopes to add and scopes to remove (each separated by NUL), alternating
-- Returns the scopes of each object before, separated by NUL
-- Cost: O(scopes of the objects)
local scopes, all_scopes = KEYS[1], KEYS[2]

local function each_of(joined)
  return string.gmatch(joined, "[^%z]+")
end

local before = {}
for index = 1, #ARGV, 3 do
  local id, added, removed = ARGV[index], ARGV[index + 1], ARGV[index + 2]
  local stored = redis.call("HGET", scopes, id) or ""
  local wanted, after = {}, {}
  for _, joined in ipairs({ stored, added }) do
    for scope in each_of(joined) do
      wanted[scope] = true
    end
  end
  for scope in each_of(removed) do
    wanted[scope] = nil
  end
  for scope in each_of(added) do
    redis.call("SADD", all_scopes, scope)
  end
  for scope in pairs(wanted) do
    after[#after + 1] = scope
  end
  table.sort(after)
  if #after > 0 then
    redis.call("HSET", scopes, id, table.concat(after, "\0"))
  else
    redis.call("HDEL", scopes, id)
  end
  before[#before + 1] = stored
end
return before
