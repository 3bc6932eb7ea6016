-- Remove an id from a recent list.
-- Precondition: none.
-- KEYS[1] recents  list of id NUL text, the latest first
-- ARGV[1] id  text
-- Returns n >= 0: length of the list
-- Cost: O(length of the list), 1,000 at most
local recents = KEYS[1]
local id = ARGV[1]
-- @include recents

remove_id(recents, id)
return redis.call("LLEN", recents)
