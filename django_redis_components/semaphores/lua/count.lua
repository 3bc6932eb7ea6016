-- How many permits are held.
-- Precondition: none; writes nothing.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- Returns n: the unexpired permits
-- Cost: O(log permits)
local holders = KEYS[1]
local time = redis.call("TIME")
local now_ms = math.floor((time[1] * 1000000 + time[2]) / 1000)

return redis.call("ZCOUNT", holders, "(" .. string.format("%.0f", now_ms), "+inf")
