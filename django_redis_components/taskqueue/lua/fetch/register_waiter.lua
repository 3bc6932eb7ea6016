-- Ask for a result, and be told when it is there.
-- Precondition: none.
-- KEYS[1] base  common prefix of the tag's keys
-- ARGV[1] id  of the task
-- DERIVED base:t:<id> hash
-- Returns 1: finished; 0: not yet, the waiter's bell will ring; -1: there is no such task
-- Cost O(1)
local base = KEYS[1]
local id = ARGV[1]

local record = base .. ":t:" .. id
local seen = redis.call("HMGET", record, "q", "s")
if not seen[1] then
    return -1
end
local ended = { successful = true, failed = true, cancelled = true, expired = true }
if ended[seen[2]] then
    return 1
end
redis.call("HINCRBY", record, "W", 1)
return 0
