-- Find members of a sorted set that no entry has, and remove them if asked.
-- Precondition: none.
-- KEYS[1] members  zset: lex or top
-- KEYS[2] entries  hash id -> record
-- ARGV[1] cursor  of ZSCAN
-- ARGV[2] count  members to look at
-- ARGV[3] remove  1: remove them
-- Returns the next cursor, the ids of the members
-- Cost: O(count) times O(terms of an entry)
local members, entries = KEYS[1], KEYS[2]
local cursor, count, remove = ARGV[1], ARGV[2], ARGV[3] == "1"
-- @include entries

local function has_member(id, member)
  for _, listed in ipairs({ members_of(id, redis.call("HGET", entries, id) or "") }) do
    for _, listed_member in ipairs(listed) do
      if listed_member == member then
        return true
      end
    end
  end
  return false
end

local reply = redis.call("ZSCAN", members, cursor, "COUNT", count)
local ids = {}
for index = 1, #reply[2], 2 do
  local member = reply[2][index]
  local id = string.match(member, "%z([^%z]*)$") or ""
  if not has_member(id, member) then
    ids[#ids + 1] = id
    if remove then
      redis.call("ZREM", members, member)
    end
  end
end
return { reply[1], ids }
