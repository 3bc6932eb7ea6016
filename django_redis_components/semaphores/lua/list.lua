-- Who holds permits, and for how long: those that expire first come first.
-- Precondition: none; writes nothing.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- ARGV[1] most  how many to return at most
-- Returns {permit, ms, ...}: members and the milliseconds until they expire
-- Cost: O(log permits + most)
local holders = KEYS[1]
local most = ARGV[1]
local time = redis.call("TIME")
local now_ms = math.floor((time[1] * 1000000 + time[2]) / 1000)
local after = "(" .. string.format("%.0f", now_ms)

local found = redis.call("ZRANGEBYSCORE", holders, after, "+inf", "WITHSCORES", "LIMIT", 0, most)
for at = 2, #found, 2 do
  found[at] = found[at] - now_ms
end
return found
