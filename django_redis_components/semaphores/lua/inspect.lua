-- Reads who holds permits and how many wait. Changes nothing: what is over is passed over, not dropped.
-- Precondition: none.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] limit  string: the limit that was set for all
-- ARGV[1] most  how many permits to list at most
-- ARGV[2] liveness_ms  milliseconds after which a silent waiter does not count
-- DERIVED <holders>:asked, <holders>:handoffs
-- Returns {{held, limit, waiting}, {permit, ms, ...}}: unexpired permits, limit 0 when none was set; members and the
-- milliseconds until they expire, those that expire first first
-- Cost: O(log permits + log waiters + most + hand-offs)
local holders, limit = KEYS[1], KEYS[2]
local asked, handoffs = holders .. ":asked", holders .. ":handoffs"
local most, liveness_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
local now_ms = math.floor((time[1] * 1000000 + time[2]) / 1000)
-- @include waiting
local now = string.format("%.0f", now_ms)

local found = redis.call("ZRANGEBYSCORE", holders, "(" .. now, "+inf", "WITHSCORES", "LIMIT", 0, most)
for at = 2, #found, 2 do
  found[at] = found[at] - now_ms
end
local figures = {
  redis.call("ZCOUNT", holders, "(" .. now, "+inf"),
  tonumber(redis.call("GET", limit) or 0),
  count_waiting(),
}
return { figures, found }
