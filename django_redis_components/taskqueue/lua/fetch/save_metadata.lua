-- Keep what a task notes about itself while it runs.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] token  of the lease under which it runs
-- ARGV[3] text  JSON, opaque
-- DERIVED base:t:<id> hash
-- Returns 1: kept
-- Returns 0: the task is not leased under this token any more
-- Cost: O(1)
local base = KEYS[1]
local id = ARGV[1]
local token = ARGV[2]
local text = ARGV[3]

local record = base .. ":t:" .. id
local seen = redis.call("HMGET", record, "L", "s")
if seen[1] ~= token or seen[2] ~= "running" then
    return 0
end
redis.call("HSET", record, "m", text)
return 1
