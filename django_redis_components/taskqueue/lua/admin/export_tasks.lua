-- Take tasks out of a queue, so that another shard can take them; first step of a move. Until its last step they are in
-- `moving`, no worker of this shard finds them, and another shard may or may not have them.
-- Precondition: none; tasks that must stay, are not pending or failed any more, or entered the state later are skipped.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] state  failed; any other: pending
-- ARGV[3] until_us  tasks that entered the queue, or failed, until then, in microseconds since the epoch
-- ARGV[4] target  name of the other shard
-- ARGV[5] op  id of the operation, new for each
-- ARGV[6] is_target  1 if new tasks with the same unique keys and limits go to the other shard
-- ARGV[7..] ids  of tasks
-- DERIVED base:t:<id>, base:moving_task:<id> hashes, :errors lists, base:moving zset, base:q:<queue>:* lists, zsets and hashes,
--         base:queues, :wakeup:* zsets, base:paused hash, base:reply:<op>, :sequence, :limit:*, :rate:* strings,
--         base:holders:*, :concurrency_waiters:* zsets
-- Returns {n}: n tasks taken
-- Returns {-1}: tasks of an earlier move to another shard have not arrived there yet
-- Cost: O(m log n) for m ids, O(n) if tasks of the lists are among them
local base = KEYS[1]
local queue = ARGV[1]
local state = ARGV[2]
local until_us = ARGV[3]
local target = ARGV[4]
local op = ARGV[5]
local is_target = ARGV[6]
-- @include flush
-- @include idempotency
-- @include movable

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local moving = base_key(ctx, K.moving)
local earlier = redis.call("ZRANGE", moving, 0, 0)[1]
local earlier_note = earlier and redis.call("HGET", task_key(ctx, earlier), F.moving)
if earlier_note and string.match(earlier_note, "^%S+") ~= target then
  return { -1 }
end

local function is_movable(task)
  return not reason_to_stay(ctx, task.id, queue, is_target)
end

local function take_failed(ids)
  local taken = {}
  for _, id in ipairs(ids) do
    local score = failed_ms(ctx, id, queue, until_us)
    if score and not reason_to_stay(ctx, id, queue, is_target) then
      redis.call("ZREM", queue_key(ctx, queue, P.failed), id)
      taken[#taken + 1] = { id = id, part = P.failed, score = score }
    end
  end
  return taken
end

-- Set the record aside. In its place stays what a repeated call of `enqueue` needs to find that it was accepted before. It
-- has no queue, so that all other scripts find no task.
local function set_aside(task, at_us)
  local record, aside = task_key(ctx, task.id), base_key(ctx, K.moving_task, task.id)
  local note = table.concat({ target, op, task.part, task.score or "-" }, " ")
  local enqueued_us, nonce, name, body = unpack(redis.call("HMGET", record,
    F.enqueued_at_us, F.nonce, F.task_name, F.body))
  redis.call("RENAME", record, aside)
  if redis.call("EXISTS", record .. ":errors") == 1 then
    redis.call("RENAME", record .. ":errors", aside .. ":errors")
  end
  redis.call("HSET", aside, F.moving, note)
  redis.call("HSET", record, F.enqueued_at_us, enqueued_us, F.moving, note, F.task_name, name or "")
  if nonce then
    redis.call("HSET", record, F.nonce, nonce, F.body, body)
  end
  redis.call("ZADD", moving, at_us, task.id)
end

local ids = { unpack(ARGV, 7) }
local tasks = state == S.failed and take_failed(ids) or take_pending(ctx, queue, ids, until_us, is_movable)
for number, task in ipairs(tasks) do
  set_aside(task, ctx.now_us + number) -- in the order in which the other shard takes them
end
flush(ctx)
return reply(ctx, op, { #tasks })
