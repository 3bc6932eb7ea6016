-- Leave the queue without waiting any longer, and pass on what was just granted.
-- Precondition: the token ends in ":r" for a reader, in ":w" for a writer.
-- KEYS[1] writer  string: the writer's token
-- KEYS[2] readers  zset: reader's token -> server time in ms at which its lease ends
-- KEYS[3] fence  string: the last fencing token of a writer
-- KEYS[4] queue  zset: waiting token -> ticket
-- ARGV[1] token  text
-- ARGV[2] handoff_ms  milliseconds of the leases that the next waiters get
-- DERIVED <writer>:asked, <writer>:paused, <writer>:handoffs, <writer>:probes, <writer>:wakeup, <writer>:wakeup:<token>
-- DERIVED <writer>:holder:<token>
-- Returns 1: it waited, or had a lease
-- Returns 0: it did neither
-- Cost: O(log readers + log waiters), plus as much for each waiter that is probed, passed over or granted
local writer, readers, fence, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, handoff_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
-- @include readwrite_queue
-- @include holder

local ctx = open_readwrite(writer, readers, fence, queue, handoff_ms, time[1] * 1000000 + time[2])
local waiters = open_readwrite_queue(ctx)
local waited, held = leave(waiters, token), holds(ctx, token)
redis.call("DEL", wakeup_of(writer, token), holder_of(writer, token))
if held then
  revoke(ctx, token)
end
review(waiters) -- the caller may have read the shared wakeup, by which another waiter was to do this
serve(waiters)
watch_handoffs(waiters)
return (waited or held) and 1 or 0
