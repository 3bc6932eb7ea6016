-- Return the users who are present.
-- Precondition: none.
-- KEYS[1] presence  zset: user -> end in milliseconds
-- ARGV[1] max_users  users
-- Returns an array: the users, the latest first
-- Cost: O(max_users)
local presence = KEYS[1]
local max_users = ARGV[1]

local now = redis.call("TIME")
local now_ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
return redis.call("ZREVRANGEBYSCORE", presence, "+inf", "(" .. string.format("%.0f", now_ms), "LIMIT", 0, max_users)
