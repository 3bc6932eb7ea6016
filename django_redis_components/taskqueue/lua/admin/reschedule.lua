-- Change the due time of a scheduled task, or run it now.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] due  empty: at once; "+ms": milliseconds from now; else milliseconds since the epoch
-- ARGV[3] op  id of the operation, new for each
-- DERIVED base:t:<id> hash, base:q:<queue>:scheduled, :retrying, :limited, :grouped, :turns zsets, :requeued list, :reserved hash, base:wakeup:* zset,
--         base:paused hash, base:reply:<op>, :limit:*, :rate:* strings, base:holders:*, :concurrency_waiters:* zsets
-- Returns {1}: rescheduled
-- Returns {0}: the task is not scheduled: it is ready, runs or has finished
-- Returns {-1}: the task does not exist
-- Cost: O(log n)
local base = KEYS[1]
local id = ARGV[1]
local due = ARGV[2]
local op = ARGV[3]
-- @include placement
-- @include times
-- @include flush
-- @include idempotency
-- @lazy limit_queue: limits_of, leave

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local queue, state = unpack(redis.call("HMGET", task_key(ctx, id), F.queue, F.state))
if not queue then
  return { -1 }
end
local scheduled, limited = queue_key(ctx, queue, P.scheduled), queue_key(ctx, queue, P.limited)
local limits = limit_queue().limits_of(ctx, id, queue)
local waits_for_rate = limits and limits.rate and redis.call("ZSCORE", limited, limits.rate_entry)
if not waits_for_rate and not redis.call("ZSCORE", scheduled, id) then
  return { 0 }
end
limit_queue().leave(ctx, id, queue)
flush(ctx)
local due_ms = due ~= "" and parse_due(due, ctx.now_us) or ctx.now_ms
redis.call("HSET", task_key(ctx, id), F.due_at_ms, due_ms)
redis.call("ZREM", scheduled, id) -- its old score must not count as an earlier task's
schedule(ctx, queue, id, due_ms)
if state == S.retrying then -- it may not be a member: the poller has removed it if it was due
  redis.call("ZADD", queue_key(ctx, queue, P.retrying), due_ms, id)
end
if due_ms <= ctx.now_ms then
  notify_queue(ctx, queue)
end
return reply(ctx, op, { 1 })
