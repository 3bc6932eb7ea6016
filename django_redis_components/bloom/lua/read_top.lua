-- Read the items of a top list with the largest counts.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the list
-- DERIVED base:counts base:errors base:meta
-- ARGV[1] parameters  of the list
-- ARGV[2] number  of items
-- Returns for each item its text, its count and the largest possible error of the count
-- Returns -1 and the stored parameters: they differ
-- Cost: O(log counters) plus O(number)
local base = KEYS[1]
local parameters, number = ARGV[1], tonumber(ARGV[2])

local stored = redis.call("HGET", base .. ":meta", "parameters")
if stored and stored ~= parameters then
  return { -1, stored }
end
local items, replies = redis.call("ZRANGE", base .. ":counts", 0, number - 1, "REV", "WITHSCORES"), {}
for index = 1, #items, 2 do
  replies[#replies + 1] = items[index]
  replies[#replies + 1] = items[index + 1]
  replies[#replies + 1] = redis.call("HGET", base .. ":errors", items[index]) or "0"
end
return replies
