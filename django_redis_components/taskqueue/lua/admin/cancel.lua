-- Cancel a task. One in a zset leaves it at once, one in a list when it is fetched; a running one is asked to stop.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] ttl_ms  how long its record is kept
-- ARGV[3] force_ms  how long a running task has to stop by itself; empty: running tasks are left alone
-- ARGV[4] finished_limit  how many cancelled tasks a queue lists; 0: none
-- ARGV[5] finished_ttl_ms  how long they are listed
-- DERIVED base:t:<id> hash, :errors, :done lists, base:q:<queue>:* zsets, :ready, :requeued, :cancelled lists, :reserved hash,
--         :tombstones, :purged_at_us strings, base:queues zset, base:paused hash, base:limit:*, :rate:* strings,
--         base:holders:*, :concurrency_waiters:*, :unfinished_flows, :wakeup:* zsets, base:unique:<digest>, :sequence strings,
--         base:flow:<flow> hash
-- Returns 2: it runs, and was asked to stop
-- Returns 1: cancelled, now or before
-- Returns 0: it has finished
-- Returns -1: the task does not exist
-- Returns -2: it runs, and was left alone
-- Cost: O(log n)
local base = KEYS[1]
local id = ARGV[1]
local ttl_ms = ARGV[2]
local force_ms = tonumber(ARGV[3])
local finished_limit = tonumber(ARGV[4])
local finished_ttl_ms = ARGV[5]
-- @include placement
-- @include times
-- @include flush
-- @lazy counters: count
-- @lazy limit_queue: leave
-- @include termination

local ctx = new_context(base)
ctx.finished_limit, ctx.finished_ttl_ms = finished_limit, finished_ttl_ms
local record = task_key(ctx, id)
local queue, state, lease, enqueued_us, placed_us, cancel_request, name = unpack(redis.call("HMGET", record,
  F.queue, F.state, F.lease, F.enqueued_at_us, F.placed_at_us, F.cancel_request, F.task_name))
if not queue then
  return -1
end
if state == S.cancelled then
  return 1
end
if state == S.running then
  if not force_ms then
    return -2
  end
  -- The first word of a lease is the worker's id, "supervisor.process"; the wakeup is the supervisor's.
  local force_at_ms = math.min(ctx.now_ms + force_ms, tonumber(string.match(cancel_request or "", "^%d+") or math.huge))
  redis.call("HSET", record, F.cancel_request, string.format("%.0f %s", force_at_ms, ttl_ms))
  notify(ctx, "s:" .. string.match(lease, "^[^/]*"):gsub("%.[^.]*$", ""))
  return 2
end
if is_final(state) then
  return 0
end
local removed = limit_queue().leave(ctx, id, queue)
for _, part in ipairs({ P.scheduled, P.priority, P.unregistered, P.waiting }) do
  removed = removed + redis.call("ZREM", queue_key(ctx, queue, part), id)
end
redis.call("ZREM", queue_key(ctx, queue, P.retrying), id)
if removed == 0 and state ~= S.waiting and state ~= S.unregistered then
  -- It is in a list: in the queue's, or in the trash if it was placed before the latest purge.
  local purged_us = tonumber(redis.call("GET", queue_key(ctx, queue, P.purged_at_us)) or 0)
  if tonumber(placed_us or enqueued_us) > purged_us then
    redis.call("INCR", queue_key(ctx, queue, P.tombstones))
  end
end
finish_cancelled(ctx, id, ttl_ms)
counters().count(ctx, queue, name, O.cancelled)
flush(ctx)
return 1
