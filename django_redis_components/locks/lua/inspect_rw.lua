-- Reads who is in and who waits. Changes nothing: what is over is passed over, not dropped.
-- Precondition: none.
-- KEYS[1] writer  string: the writer's token
-- KEYS[2] readers  zset: reader's token -> server time in ms at which its lease ends
-- KEYS[3] fence  string: the last fencing token of a writer
-- KEYS[4] queue  zset: waiting token -> ticket
-- KEYS[5] alive  zset: waiting token -> server time in ms at which it counts as dead
-- ARGV[1] most  number of readers, and of waiters, to list
-- Returns {{writer, left_ms, fence, waiting, reading}, readers, waiters}: writer "" for nobody, fence 0 when it
-- is forgotten; readers as token and milliseconds left in turn, those that end first first; waiters in the
-- order of the line
-- Cost: O(log readers + log waiters + most)
local writer, readers, fence, queue, alive = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local most = tonumber(ARGV[1])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

local reading = {}
local inside = redis.call("ZRANGE", readers, "(" .. now_ms, "+inf", "BYSCORE", "LIMIT", 0, most, "WITHSCORES")
for at = 1, #inside, 2 do
  reading[at], reading[at + 1] = inside[at], inside[at + 1] - now_ms
end
local waiting = {}
for _, token in ipairs(redis.call("ZRANGE", queue, 0, most - 1)) do
  if tonumber(redis.call("ZSCORE", alive, token) or 0) >= now_ms then
    waiting[#waiting + 1] = token
  end
end
local figures = {
  redis.call("GET", writer) or "",
  math.max(redis.call("PTTL", writer), -1),
  tonumber(redis.call("GET", fence) or 0),
  redis.call("ZCOUNT", alive, now_ms, "+inf"),
  redis.call("ZCOUNT", readers, "(" .. now_ms, "+inf"),
}
return { figures, reading, waiting }
