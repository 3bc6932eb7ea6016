-- Requeue unregistered tasks under another name, that of a registered task which accepts their arguments.
-- Precondition: none; a task that is not unregistered any more, or became so later, is skipped.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] up_to_ms  those that became unregistered until then
-- ARGV[3] name  of the registered task
-- ARGV[4] op  id of the operation, new for each
-- ARGV[5..] ids  of tasks
-- DERIVED base:q:<queue>:unregistered, :grouped, :turns zsets, :requeued list, base:t:<id> hash, base:paused hash, base:wakeup:* zset,
--         base:reply:<op>, :sequence strings
-- Returns {n}: n tasks requeued
-- Cost: O(m log n) for m ids
local base = KEYS[1]
local queue = ARGV[1]
local up_to_ms = ARGV[2]
local name = ARGV[3]
local op = ARGV[4]
-- @include group_placement
-- @include idempotency
-- @include selection

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end

local unregistered = queue_key(ctx, queue, P.unregistered)
local requeued = 0
for index = 5, #ARGV do
  local id = ARGV[index]
  local is_selected = is_until(redis.call("ZSCORE", unregistered, id), up_to_ms)
  if is_selected and redis.call("HGET", task_key(ctx, id), F.state) == S.unregistered then
    redis.call("ZREM", unregistered, id)
    redis.call("HSET", task_key(ctx, id), F.task_name, name)
    requeue_behind(ctx, id, queue, P.requeued)
    requeued = requeued + 1
  end
end
if requeued > 0 then
  notify_queue(ctx, queue)
end
return reply(ctx, op, { requeued })
