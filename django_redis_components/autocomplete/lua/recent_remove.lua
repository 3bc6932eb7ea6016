-- Takes an id out of a list of recents.
-- Precondition: none.
-- KEYS[1] recents  list of id NUL text, the latest first
-- ARGV[1] id  text
-- ARGV[2] limit  how many are kept
-- Returns n >= 0: length of the list
-- Cost: O(limit)
local recents = KEYS[1]
local id = ARGV[1]
local limit = tonumber(ARGV[2])
-- @include recents

take_out(recents, id, limit)
return redis.call("LLEN", recents)
