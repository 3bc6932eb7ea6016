-- Moves an id to the front of a list of recents.
-- Precondition: neither id nor text holds NUL.
-- KEYS[1] recents  list of id NUL text, the latest first
-- ARGV[1] id  text
-- ARGV[2] text  text; empty keeps the text that the list has
-- ARGV[3] limit  how many are kept
-- ARGV[4] ttl_ms  milliseconds that the list lives from now on
-- Returns n >= 1: length of the list
-- Cost: O(length of the list), 1,000 at most
local recents = KEYS[1]
local id, text = ARGV[1], ARGV[2]
local limit, ttl_ms = tonumber(ARGV[3]), ARGV[4]
-- @include recents

local known = take_out(recents, id)
redis.call("LPUSH", recents, id .. "\0" .. (text ~= "" and text or known))
redis.call("LTRIM", recents, 0, limit - 1)
redis.call("PEXPIRE", recents, ttl_ms)
return redis.call("LLEN", recents)
