-- Read the holders and the waiters. Writes nothing: expired leases are skipped, not removed.
-- Precondition: none.
-- KEYS[1] writer  string: the writer's token
-- KEYS[2] readers  zset: reader's token -> server time in ms at which its lease ends
-- KEYS[3] fence  string: the last fencing token of a writer
-- KEYS[4] queue  zset: waiting token -> ticket
-- ARGV[1] most  number of readers, and of waiters, to list
-- ARGV[2] liveness_ms  milliseconds after which a silent waiter does not count
-- DERIVED <writer>:asked, <writer>:handoffs, <writer>:holder:<token>
-- Returns {{writer, left_ms, fence, waiting, reading}, readers, waiters, descriptions}: writer "" for none, fence 0 when it
-- is forgotten; readers as token and milliseconds left in turn, those that end first first; waiters in the
-- order of the queue; descriptions of the writer and of the readers in turn, "" for those that are not known
-- Cost: O(log readers + log waiters + most + hand-offs)
local writer, readers, fence, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local asked, handoffs = writer .. ":asked", writer .. ":handoffs"
local most, liveness_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
local since_ms = now_ms - liveness_ms
-- @include waiting
-- @include holder

local function description_of(token)
  return redis.call("GET", holder_of(writer, token)) or ""
end

local reading, token = {}, redis.call("GET", writer) or ""
local descriptions = { description_of(token) }
local inside = redis.call("ZRANGE", readers, "(" .. now_ms, "+inf", "BYSCORE", "LIMIT", 0, most, "WITHSCORES")
for at = 1, #inside, 2 do
  reading[at], reading[at + 1] = inside[at], inside[at + 1] - now_ms
  descriptions[#descriptions + 1] = description_of(inside[at])
end
local waiting = {}
for _, token in ipairs(redis.call("ZRANGE", queue, 0, most - 1)) do
  if is_waiting(asked, since_ms, token) then
    waiting[#waiting + 1] = token
  end
end
local figures = {
  token,
  math.max(redis.call("PTTL", writer), -1),
  tonumber(redis.call("GET", fence) or 0),
  count_waiting(asked, since_ms, handoffs),
  redis.call("ZCOUNT", readers, "(" .. now_ms, "+inf"),
}
return { figures, reading, waiting, descriptions }
