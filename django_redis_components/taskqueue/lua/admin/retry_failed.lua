-- Retry failed tasks: those named, or the oldest, of those that failed up to a moment. Their errors stay in the records.
-- Precondition: none; a task that is not failed any more is skipped; one whose unique key another task has stays failed.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] up_to_ms  those that failed until then
-- ARGV[3] limit  maximum number of tasks
-- ARGV[4] op  id of the operation, new for each
-- ARGV[5] skip  how many of the oldest are passed over: those that an earlier call looked at and that stayed
-- ARGV[6..] ids  of tasks
-- DERIVED base:q:<queue>:failed, :priority, :waiting, :grouped, :turns zsets, :ready list, base:t:<id> hash, :errors list, base:wakeup:*,
--         :queues, :unfinished_flows zsets, base:paused hash, base:sequence, :reply:<op>, :unique:<digest> strings,
--         base:flow:<flow> hash
-- Returns {n, m, k}: n retried, m looked at, k stayed, since another task has their unique key
-- Cost: O(m log n)
local base = KEYS[1]
local queue = ARGV[1]
local up_to_ms = ARGV[2]
local limit = ARGV[3]
local op = ARGV[4]
local skip = ARGV[5]
-- @include group_placement
-- @include times
-- @include idempotency
-- @include selection
-- @lazy unique: reacquire_key
-- @lazy flow: flow_steps

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end

local function retry(id, priority, flow_ref)
  local record = task_key(ctx, id)
  redis.call("HDEL", record, F.finished_at_us, F.attempts, F.deliveries, F.due_at_ms, F.lease, F.cancel_request)
  redis.call("PERSIST", record)
  if not priority then
    requeue_behind(ctx, id, queue, P.ready)
  elseif not place_in_group(ctx, id, queue) then
    redis.call("HSET", record, F.state, S.ready)
    push_priority(ctx, queue, id, priority)
  end
  if flow_ref then
    flow().flow_steps().revive_followers(ctx, flow_ref, id)
  end
end

local failed = queue_key(ctx, queue, P.failed)
local ids = select_ids(ctx, queue, P.failed, up_to_ms, skip, limit, ARGV, 6)
local retried, stayed = 0, 0
for _, id in ipairs(ids) do
  local state, priority, claim, flow_ref = unpack(redis.call("HMGET", task_key(ctx, id),
    F.state, F.priority, F.unique_claim, F.flow_ref))
  local is_selected = is_until(redis.call("ZSCORE", failed, id), up_to_ms)
  local is_failed = is_selected and state == S.failed
  if is_failed and claim and unique().reacquire_key(ctx, id, claim) then
    stayed = stayed + 1
  elseif is_selected and redis.call("ZREM", failed, id) == 1 and is_failed then
    retry(id, priority, flow_ref)
    retried = retried + 1
  end
end
if retried > 0 then
  notify_queue(ctx, queue)
end
return reply(ctx, op, { retried, #ids, stayed })
