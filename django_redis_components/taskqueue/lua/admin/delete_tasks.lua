-- Delete failed or unregistered tasks: those named, or the oldest up to a moment.
-- Precondition: none; a task that is not in this state any more is skipped.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] state  failed or unregistered
-- ARGV[3] up_to_ms  without ids: those that entered the state until then
-- ARGV[4] limit  maximum number of tasks
-- ARGV[5] op  id of the operation, new for each
-- ARGV[6..] ids  of tasks
-- DERIVED base:q:<queue>:* lists, zsets, hashes and strings, base:t:<id> hash, :errors, :done lists, base:reply:<op>,
--         :unique:<digest>, :sequence strings, base:flow:<flow>, :paused hashes, base:queues, :wakeup:* zsets
-- Returns {n, m}: n deleted, m looked at
-- Cost: O(m log n)
local base = KEYS[1]
local queue = ARGV[1]
local state = ARGV[2]
local up_to_ms = ARGV[3]
local limit = ARGV[4]
local op = ARGV[5]
-- @include flush
-- @include idempotency
-- @include selection
-- @include termination

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local ids, deleted = select_ids(ctx, queue, state, up_to_ms, 0, limit, ARGV, 6), 0
for _, id in ipairs(ids) do
  if redis.call("ZREM", queue_key(ctx, queue, state), id) == 1 then
    delete_task(ctx, id)
    deleted = deleted + 1
  end
end
flush(ctx)
return reply(ctx, op, { deleted, #ids })
