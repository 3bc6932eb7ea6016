-- Read the holders of permits and the waiters. Writes nothing: expired permits and silent waiters are not listed.
-- Precondition: none.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] queue  zset: waiting permit -> ticket
-- KEYS[3] limit  string: the limit that was set for all
-- ARGV[1] most  number of permits, and of waiters, to list
-- ARGV[2] liveness_ms  milliseconds after which a silent waiter does not count
-- DERIVED <holders>:asked, <holders>:handoffs, <holders>:holder:<permit>
-- Returns {{held, limit, waiting}, {permit, ms, ...}, {waiter, ...}, {description, ...}}: unexpired permits, limit 0 when
-- none was set; permits and the milliseconds until they expire, in order of expiry; waiters in the order of the queue;
-- descriptions of the permits in turn, "" for those that are not known
-- Cost: O(log permits + log waiters + most + hand-offs)
local holders, queue, limit = KEYS[1], KEYS[2], KEYS[3]
local asked, handoffs = holders .. ":asked", holders .. ":handoffs"
local most, liveness_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call("TIME")
local now_ms = math.floor((time[1] * 1000000 + time[2]) / 1000)
local since_ms = now_ms - liveness_ms
-- @include waiting
-- @include holder
local unexpired = "(" .. string.format("%.0f", now_ms)

local permits = redis.call("ZRANGEBYSCORE", holders, unexpired, "+inf", "WITHSCORES", "LIMIT", 0, most)
local descriptions = {}
for at = 2, #permits, 2 do
  permits[at] = permits[at] - now_ms
  descriptions[at / 2] = redis.call("GET", holder_of(holders, permits[at - 1])) or ""
end
local waiters = {}
for _, permit in ipairs(redis.call("ZRANGE", queue, 0, most - 1)) do
  if is_waiting(asked, since_ms, permit) then
    waiters[#waiters + 1] = permit
  end
end
local figures = {
  redis.call("ZCOUNT", holders, unexpired, "+inf"),
  tonumber(redis.call("GET", limit) or 0),
  count_waiting(asked, since_ms, handoffs),
}
return { figures, permits, waiters, descriptions }
