-- How many permits are held, and the limit that was set for all.
-- Precondition: none; writes nothing.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] limit  string: the limit that was set for all
-- Returns {n, m}: the unexpired permits, and the limit (0: none was set)
-- Cost: O(log permits)
local holders, limit = KEYS[1], KEYS[2]
local time = redis.call("TIME")
local now_ms = math.floor((time[1] * 1000000 + time[2]) / 1000)

local held = redis.call("ZCOUNT", holders, "(" .. string.format("%.0f", now_ms), "+inf")
return { held, tonumber(redis.call("GET", limit) or 0) }
