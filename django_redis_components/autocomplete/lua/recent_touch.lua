-- Move an id to the head of a recent list.
-- Precondition: neither id nor text contains NUL.
-- KEYS[1] recents  list of id NUL text, the latest first
-- ARGV[1] id  text
-- ARGV[2] text  text; empty keeps the stored text
-- ARGV[3] limit  maximum length
-- ARGV[4] ttl_ms  milliseconds
-- Returns n >= 1: length of the list
-- Cost: O(length of the list), 1,000 at most
local recents = KEYS[1]
local id, text = ARGV[1], ARGV[2]
local limit, ttl_ms = tonumber(ARGV[3]), ARGV[4]
-- @include recents

local stored = remove_id(recents, id)
redis.call("LPUSH", recents, id .. "\0" .. (text ~= "" and text or stored))
redis.call("LTRIM", recents, 0, limit - 1)
redis.call("PEXPIRE", recents, ttl_ms)
return redis.call("LLEN", recents)
