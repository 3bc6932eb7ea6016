-- Read the holder of the lock and its waiters. Writes nothing: waiters that were silent too long are not listed.
-- Precondition: none.
-- KEYS[1] lock  string: the holder's token
-- KEYS[2] fence  string: the last fencing token
-- KEYS[3] queue  zset: waiting token -> ticket
-- KEYS[4] asked  zset: waiting token -> server time in ms at which it asked last
-- KEYS[5] handoffs  zset: token that was handed the lock and has not taken it -> server time in ms
-- KEYS[6] base  none: prefix of the holders' descriptions
-- ARGV[1] most  number of waiters to list
-- ARGV[2] liveness_ms  milliseconds after which a silent waiter does not count
-- DERIVED <base>:holder:<token>
-- Returns {holder, left_ms, fence, age_ms, waiting, description, token, ...}: holder "" for none, left_ms -1 without an
--         end, fence 0 when it has expired, description "" when it is not known, tokens in the order of the queue
-- Cost: O(log waiters + most + hand-offs)
local lock, fence, queue, asked, handoffs, base = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local most, liveness_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
local since_ms = now_ms - liveness_ms
-- @include waiting
-- @include holder

local holder = redis.call("GET", lock) or ""
local last = tonumber(redis.call("GET", fence) or 0)
local left_ms, age_ms, description = 0, 0, ""
if holder ~= "" then
  left_ms = redis.call("PTTL", lock)
  age_ms = last > 0 and math.max(0, now_ms - math.floor(last / 1000)) or 0
  description = redis.call("GET", holder_of(base, holder)) or ""
end
local state = { holder, left_ms, last, age_ms, count_waiting(asked, since_ms, handoffs), description }
for _, token in ipairs(redis.call("ZRANGE", queue, 0, most - 1)) do
  if is_waiting(asked, since_ms, token) then
    state[#state + 1] = token
  end
end
return state
