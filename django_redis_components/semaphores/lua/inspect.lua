-- Reads who holds permits and how many wait. Changes nothing: what is over is passed over, not dropped.
-- Precondition: none.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] alive  zset: waiting permit -> server time in ms at which it counts as dead
-- KEYS[3] limit  string: the limit that was set for all
-- ARGV[1] most  how many permits to list at most
-- Returns {{held, limit, waiting}, {permit, ms, ...}}: unexpired permits, limit 0 when none was set; members and the
-- milliseconds until they expire, those that expire first first
-- Cost: O(log permits + log waiters + most)
local holders, alive, limit = KEYS[1], KEYS[2], KEYS[3]
local most = ARGV[1]
local time = redis.call("TIME")
local now_ms = math.floor((time[1] * 1000000 + time[2]) / 1000)
local now = string.format("%.0f", now_ms)

local found = redis.call("ZRANGEBYSCORE", holders, "(" .. now, "+inf", "WITHSCORES", "LIMIT", 0, most)
for at = 2, #found, 2 do
  found[at] = found[at] - now_ms
end
local figures = {
  redis.call("ZCOUNT", holders, "(" .. now, "+inf"),
  tonumber(redis.call("GET", limit) or 0),
  redis.call("ZCOUNT", alive, now, "+inf"),
}
return { figures, found }
