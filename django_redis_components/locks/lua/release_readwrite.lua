-- Release the lease of a reader or the writer, and hand off to the next waiters.
-- Precondition: the token ends in ":r" for a reader, in ":w" for a writer.
-- KEYS[1] writer  string: the writer's token
-- KEYS[2] readers  zset: reader's token -> server time in ms at which its lease ends
-- KEYS[3] fence  string: the last fencing token of a writer
-- KEYS[4] queue  zset: waiting token -> ticket
-- ARGV[1] token  text
-- ARGV[2] released_by  text: the operator of a forced release; empty: the holder releases it
-- ARGV[3] handoff_ms  milliseconds of the leases that the next waiters get
-- DERIVED <writer>:asked, <writer>:paused, <writer>:handoffs, <writer>:probes, <writer>:wakeup, <writer>:wakeup:<token>
-- DERIVED <writer>:holder:<token>
-- Returns 2: released and handed off while others wait: `confirm` must follow
-- Returns 1: released
-- Returns 0: this token has no lease
-- Cost: O(log readers), plus O(log readers + log waiters) for each waiter that is passed over or granted
local writer, readers, fence, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, released_by, handoff_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call("TIME")
-- @include readwrite

local ctx = open_readwrite(writer, readers, fence, queue, handoff_ms, time[1] * 1000000 + time[2])
if not holds(ctx, token) then
  return 0
end
revoke(ctx, token)
if released_by == "" then
  redis.call("DEL", writer .. ":holder:" .. token)
  -- No waiter: the common case, with nothing else to do.
  if redis.call("EXISTS", queue) == 0 then
    return 1
  end
end
-- @include readwrite_queue
-- @include holder

if released_by ~= "" then
  mark_released(writer, token, released_by)
end
local waiters = open_readwrite_queue(ctx)
serve(waiters)
return waiters.has_offered and redis.call("EXISTS", queue) == 1 and 2 or 1
