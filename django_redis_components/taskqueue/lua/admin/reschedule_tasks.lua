-- Change the due time of ready and scheduled tasks of a queue, or make its scheduled tasks due at once.
-- Precondition: none; a task that is not ready or scheduled any more, or entered the queue later, is skipped.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] until_us  tasks that entered the queue until then, in microseconds since the epoch; empty: all of these
-- ARGV[3] due  empty: at once; "+ms": milliseconds from now; else milliseconds since the epoch
-- ARGV[4] op  id of the operation, new for each
-- ARGV[5..] ids  of tasks
-- DERIVED base:t:<id> hash, base:q:<queue>:* lists, zsets and hashes, base:wakeup:* zset, base:paused hash,
--         base:reply:<op>, :limit:*, :rate:* strings, base:holders:*, :concurrency_waiters:* zsets
-- Returns {n}: n tasks rescheduled
-- Cost: O(m log n) for m ids, O(n) if tasks of the lists are among them
local base = KEYS[1]
local queue = ARGV[1]
local until_us = ARGV[2]
local due = ARGV[3]
local op = ARGV[4]
-- @include placement
-- @include times
-- @include flush
-- @include idempotency
-- @include pending

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local due_ms = due ~= "" and parse_due(due, ctx.now_us) or ctx.now_ms
local is_due = due_ms <= ctx.now_ms
local scheduled = queue_key(ctx, queue, P.scheduled)

-- A ready task is not made due at once: it is due, and would only overtake others.
local function may_change(task)
  if task.state == S.unregistered or task.state == S.waiting then
    return false
  end
  return not is_due or task.state == S.retrying or (task.due_ms or 0) > ctx.now_ms
    or redis.call("ZSCORE", scheduled, task.id)
end

local tasks = take_pending(ctx, queue, { unpack(ARGV, 5) }, until_us, may_change)
for _, task in ipairs(tasks) do
  local is_retrying = task.state == S.retrying
  redis.call("HSET", task_key(ctx, task.id), F.state, is_retrying and S.retrying or S.scheduled,
    F.due_at_ms, due_ms, F.placed_at_us, ctx.now_us)
  schedule(ctx, queue, task.id, due_ms)
  if is_retrying then
    redis.call("ZADD", queue_key(ctx, queue, P.retrying), due_ms, task.id)
  end
end
if is_due and #tasks > 0 then
  notify_queue(ctx, queue)
end
flush(ctx)
return reply(ctx, op, { #tasks })
