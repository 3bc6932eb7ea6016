-- Move pending tasks to another queue: each keeps its state, its due time, its priority, its unique key, its limits and
-- its place in its flow, and comes after those that were there. Unregistered tasks are ready there.
-- Precondition: none; a task that is not pending any more, or entered the queue later, is skipped.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] until_us  tasks that entered the queue until then, in microseconds since the epoch; empty: all of these
-- ARGV[3] target  name of the other queue
-- ARGV[4] op  id of the operation, new for each
-- ARGV[5..] ids  of tasks
-- DERIVED base:t:<id> hash, base:q:<queue>:* lists, zsets and hashes, base:queues, :wakeup:* zsets, base:paused hash,
--         base:reply:<op>, :sequence, :limit:*, :rate:* strings, base:holders:*, :concurrency_waiters:* zsets
-- Returns {n}: n tasks moved
-- Cost: O(m log n) for m ids, O(n) if tasks of the lists are among them
local base = KEYS[1]
local queue = ARGV[1]
local until_us = ARGV[2]
local target = ARGV[3]
local op = ARGV[4]
-- @include group_placement
-- @include flush
-- @include idempotency
-- @include pending
-- @include place_pending

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end

local function accepts_any()
  return true
end

local tasks = queue ~= target and take_pending(ctx, queue, { unpack(ARGV, 5) }, until_us, accepts_any) or {}
for _, task in ipairs(tasks) do
  place_pending(ctx, task, target)
end
if #tasks > 0 then
  index_queue(ctx, target)
  notify_queue(ctx, target)
  notify(ctx, "poller")
end
flush(ctx)
return reply(ctx, op, { #tasks })
