-- Return the records of entries, and whether the sorted sets have all their members.
-- Precondition: none.
-- KEYS[1] lex  zset of members
-- KEYS[2] top  zset of members by prefix and weight
-- KEYS[3] entries  hash id -> record
-- ARGV[1..] ids  text
-- Returns for each id: its record, or nothing if there is none; 1 if the sets have its members, otherwise 0
-- Cost: O(terms of the entries)
local lex, top, entries = KEYS[1], KEYS[2], KEYS[3]
-- @include entries

local function has_all(zset, members)
  for _, member in ipairs(members) do
    if not redis.call("ZSCORE", zset, member) then
      return false
    end
  end
  return true
end

local checked = {}
for index, id in ipairs(ARGV) do
  local record = redis.call("HGET", entries, id)
  local lex_members, top_members = members_of(id, record or "")
  local is_whole = has_all(lex, lex_members) and has_all(top, top_members)
  checked[index] = { record, is_whole and 1 or 0 }
end
return checked
