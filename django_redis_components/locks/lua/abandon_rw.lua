-- For a waiter that was interrupted: leaves the line, and hands on what it was just given.
-- Precondition: the token ends in ":r" for a reader, in ":w" for a writer.
-- KEYS[1] writer  string: the writer's token
-- KEYS[2] readers  zset: reader's token -> server time in ms at which its lease ends
-- KEYS[3] fence  string: the last fencing token of a writer
-- KEYS[4] queue  zset: waiting token -> ticket
-- KEYS[5] alive  zset: waiting token -> server time in ms at which it counts as dead
-- ARGV[1] token  text
-- ARGV[2] handoff_ms  milliseconds of the lease that those who come next get
-- DERIVED <writer>:bell:<token>
-- Returns 1: it waited, or was in
-- Returns 0: it did neither
-- Cost: O(log readers + log waiters), plus as much for each that is dropped or let in
local base, writer, readers, fence, queue, alive = KEYS[1], KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, handoff_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include readwrite

local waited, was_in = redis.call("ZSCORE", queue, token), left_of(token)
leave(token)
redis.call("DEL", base .. ":bell:" .. token)
if was_in then
  let_go(token)
end
settle(handoff_ms)
return (waited or was_in) and 1 or 0
