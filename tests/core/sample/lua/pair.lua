-- Counts at the base, and at a key derived from it.
-- Precondition: none.
-- KEYS[1] base  string: how often
-- ARGV[1] value  opaque
-- DERIVED <base>:log list
-- Returns how often, and how many values the list has
-- Cost: O(1)
local base, value = KEYS[1], ARGV[1]
local times = redis.call("INCR", base)
redis.call("PEXPIRE", base, 60000)
local length = redis.call("RPUSH", base .. ":log", value)
redis.call("PEXPIRE", base .. ":log", 60000)
return { times, length }
