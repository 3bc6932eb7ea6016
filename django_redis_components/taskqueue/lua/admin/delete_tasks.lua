-- Delete failed or unregistered tasks: those named, or the oldest, of those that entered the state up to a moment. With
-- a trash id they can be restored for a day; until then flows wait for them, but their unique keys are free.
-- Precondition: none; a task that is not in this state any more is skipped.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] state  failed or unregistered
-- ARGV[3] up_to_ms  those that entered the state until then
-- ARGV[4] limit  maximum number of tasks
-- ARGV[5] op  id of the operation, new for each
-- ARGV[6] trash  id; empty: they are deleted at once
-- ARGV[7..] ids  of tasks
-- DERIVED base:q:<queue>:* lists, zsets, hashes and strings, base:t:<id> hash, :errors, :done lists, base:reply:<op>,
--         :unique:<digest>, :sequence strings, base:flow:<flow>, :paused hashes, base:queues, :wakeup:*, :trash_index,
--         :trash:<trash>:<state>, :unfinished_flows zsets
-- Returns {n, m}: n deleted, m looked at
-- Cost: O(m log n)
local base = KEYS[1]
local queue = ARGV[1]
local state = ARGV[2]
local up_to_ms = ARGV[3]
local limit = ARGV[4]
local op = ARGV[5]
local trash = ARGV[6]
-- @include flush
-- @include idempotency
-- @include selection
-- @include termination
-- @include trash
-- @lazy unique: release

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end

local function move_to_trash(id, score)
  local claim = redis.call("HGET", task_key(ctx, id), F.unique_claim)
  if claim then
    unique().release(ctx, id, claim, false)
  end
  redis.call("ZADD", trash_key(ctx, trash, state), score, id)
end

local part = queue_key(ctx, queue, state)
local ids, deleted = select_ids(ctx, queue, state, up_to_ms, 0, limit, ARGV, 7), 0
for _, id in ipairs(ids) do
  local score = redis.call("ZSCORE", part, id)
  if is_until(score, up_to_ms) then
    redis.call("ZREM", part, id)
    if trash == "" then
      delete_task(ctx, id)
    else
      move_to_trash(id, score)
    end
    deleted = deleted + 1
  end
end
if trash ~= "" and deleted > 0 then
  redis.call("ZADD", base_key(ctx, K.trash_index), "NX", ctx.now_ms, queue .. "/" .. trash)
end
flush(ctx)
return reply(ctx, op, { deleted, #ids })
