-- Return the ids of some documents, without their records.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state, and of the generation root:<number>: docs
-- ARGV[1] cursor  of HSCAN
-- ARGV[2] count  documents to look at
-- Returns the next cursor, ids
-- Cost: O(count)
local root = KEYS[1]
local cursor, count = ARGV[1], ARGV[2]
-- @include generations

local reply = redis.call("HSCAN", current_base(root) .. ":docs", cursor, "COUNT", count)
local ids = {}
for index = 1, #reply[2], 2 do
  ids[#ids + 1] = reply[2][index]
end
return { reply[1], ids }
