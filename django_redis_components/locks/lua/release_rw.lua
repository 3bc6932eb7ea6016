-- Lets a reader or the writer go, and whoever comes next in.
-- Precondition: the token ends in ":r" for a reader, in ":w" for a writer.
-- KEYS[1] writer  string: the writer's token
-- KEYS[2] readers  zset: reader's token -> server time in ms at which its lease ends
-- KEYS[3] fence  string: the last fencing token of a writer
-- KEYS[4] queue  zset: waiting token -> ticket
-- KEYS[5] alive  zset: waiting token -> server time in ms at which it counts as dead
-- ARGV[1] token  text
-- ARGV[2] handoff_ms  milliseconds of the lease that those who come next get
-- DERIVED <writer>:bell:<token>
-- Returns 1: released
-- Returns 0: this token is not in
-- Cost: O(log readers), plus O(log readers + log waiters) for each that is dropped or let in
local base, writer, readers, fence, queue, alive = KEYS[1], KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, handoff_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include readwrite

if not left_of(token) then
  return 0
end
let_go(token)
settle(handoff_ms)
return 1
