-- Restore what a purge or a deletion removed, before newer tasks; a part of it in one call. A task whose unique key
-- another task has by now is cancelled.
-- Precondition: none; the caller repeats it while something is left.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] trash  id
-- ARGV[3] limit  maximum number of tasks
-- ARGV[4] op  id of the operation, new for each
-- ARGV[5] finished_limit  how many cancelled tasks a queue lists; 0: none
-- ARGV[6] finished_ttl_ms  how long they are listed
-- DERIVED base:q:<queue>:priority, :scheduled, :retrying, :failed, :unregistered, :grouped, :turns zsets, :cancelled list, base:trash:<trash>:* lists and zsets, base:trash_index,
--         :queues, :wakeup:* zsets, base:paused hash, base:t:<id> hash, :done list, base:sequence, :reply:<op>,
--         :unique:<digest> strings
-- Returns {n, has_more}: n tasks restored; has_more 1 when another call finds more, else 0
-- Cost: O(limit log n)
local base = KEYS[1]
local queue = ARGV[1]
local trash = ARGV[2]
local limit = tonumber(ARGV[3])
local op = ARGV[4]
local finished_limit = tonumber(ARGV[5])
local finished_ttl_ms = ARGV[6]
-- @include group_placement
-- @include flush
-- @include idempotency
-- @include trash
-- @lazy counters: count
-- @lazy results: notify_waiters
-- @include finished_unrun
-- @lazy unique: reacquire_key

local ctx = new_context(base)
ctx.finished_limit, ctx.finished_ttl_ms = finished_limit, finished_ttl_ms
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local name = queue .. "/" .. trash
if not redis.call("ZSCORE", base_key(ctx, K.trash_index), name) then
  return { 0, 0 }
end

-- Tasks of lists are restored by priority, so that they keep their order while workers fetch: before all others of the
-- queue, or between those with a priority above 0 and those without.
local PRIORITIES = { [P.requeued] = 150, [P.limited] = 0.5, [P.ready] = 0.5 }

local function cancel_duplicate(id, waiters, task_name)
  redis.call("HSET", task_key(ctx, id), F.state, S.cancelled, F.finished_at_us, ctx.now_us)
  redis.call("PEXPIRE", task_key(ctx, id), T.cancelled_ms)
  list_unrun(ctx, id, S.cancelled)
  results().notify_waiters(ctx, id, waiters)
  counters().count(ctx, queue, task_name, O.cancelled)
end

local function restore(id, part, score, priority, state)
  if score then
    redis.call("ZADD", queue_key(ctx, queue, part), score, id)
    if part == P.scheduled and state == S.retrying then
      redis.call("ZADD", queue_key(ctx, queue, P.retrying), math.ceil(score), id)
    end
  elseif place_in_group(ctx, id, queue) then
    return
  elseif part == P.limited then
    redis.call("HSET", task_key(ctx, id), F.state, S.ready)
    push_priority(ctx, queue, id, priority or PRIORITIES[part])
  else
    push_priority(ctx, queue, id, PRIORITIES[part])
  end
end

local restored = 0
for _, popped in ipairs(pop_trash(ctx, trash, limit)) do
  local id, part, score = unpack(popped)
  local own_queue, state, claim, waiters, priority, task_name = unpack(redis.call("HMGET", task_key(ctx, id),
    F.queue, F.state, F.unique_claim, F.waiters, F.priority, F.task_name))
  if own_queue and state ~= S.cancelled then
    if claim and part ~= P.failed and unique().reacquire_key(ctx, id, claim) then
      cancel_duplicate(id, waiters, task_name)
    else
      restore(id, part, score, priority, state)
      restored = restored + 1
    end
  end
end
local has_more = has_trash(ctx, trash) and 1 or 0
if has_more == 0 then
  redis.call("ZREM", base_key(ctx, K.trash_index), name)
end
if restored > 0 then
  index_queue(ctx, queue)
  notify_queue(ctx, queue)
  notify(ctx, "poller")
end
flush(ctx)
return reply(ctx, op, { restored, has_more })
