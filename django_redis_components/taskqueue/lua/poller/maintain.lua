-- Run the poller's round: notify workers of due tasks, recover the tasks of dead workers, prune.
-- Precondition: none; any number of pollers may call it, only the holder of the poller's lease acts.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] poller  id of the caller
-- ARGV[2] poller_lease_ms  duration of the poller's lease
-- ARGV[3] lease_ms  duration of a task's lease without renewal
-- ARGV[4] contact  "new": the caller's first call; "error": its last call failed; "idle": its last round found no task
--         that runs or is scheduled; else empty
-- ARGV[5] prune  1: delete what is too old
-- ARGV[6] keep_ms  how long failed tasks are kept
-- ARGV[7] failed_limit  how many failed tasks a queue keeps
-- ARGV[8] lost_error  JSON of the error of a task that lost too many workers
-- ARGV[9] max_deliveries  for tasks that do not state it
-- ARGV[10] lost_fingerprint  of that error
-- ARGV[11] lost_description  JSON of class, location and text of that error
-- ARGV[12] finished_limit  how many successful tasks, cancelled and expired ones a queue lists; 0: none
-- ARGV[13] finished_ttl_ms  how long they are listed
-- ARGV[14] first  rank of the first queue of this call; a round starts with 0
-- DERIVED base:poller, :rollup, :history:*, :class_rollup, :class_hours:* strings, base:class_queues:* set, base:contact, :packed, :packed_minutes:* hashes, base:queues, :idle_queues, :workers zsets, base:paused hash,
--         base:q:<queue>:* lists, zsets, hashes and strings, base:t:<id> hash, :errors, :done lists, base:wakeup:* zset,
--         base:limit:*, :rate:* strings, base:holders:*, :concurrency_waiters:* zsets, base:unique:<digest>, :sequence strings,
--         base:flow:<flow> hash, base:unfinished_flows, :partial_flows, :flow_work zsets
-- Returns {is_active, next_due_ms, now_us, recovered, next, is_busy, schedules_version}: is_active 1, or 0 with next_due_ms the
--         milliseconds of the other poller's lease, and now_us 0; recovered is a flat list of id, queue, outcome ("requeued", "failed" or "cancelled"); next is
--         the rank at which the next call continues, 0 after the last queue; is_busy 1 if a task runs or is scheduled
-- Cost: O(queues + recovered) times O(log n); at most 500 queues are seen and 200 tasks recovered in one call; 40 waiting
--       tasks are looked at in each queue, flows of some with 11,000 tasks at most, and 800 tasks of a large flow
local base = KEYS[1]
local poller = ARGV[1]
local poller_lease_ms = tonumber(ARGV[2])
local lease_ms = tonumber(ARGV[3])
local contact = ARGV[4]
local prune = ARGV[5] == "1"
local keep_ms = tonumber(ARGV[6])
local failed_limit = ARGV[7]
local lost_error = ARGV[8]
local max_deliveries = tonumber(ARGV[9])
local lost_fingerprint = ARGV[10]
local lost_description = ARGV[11]
local finished_limit = tonumber(ARGV[12])
local finished_ttl_ms = ARGV[13]
local first = tonumber(ARGV[14])
-- @include group_placement
-- @include times
-- @include flush
-- @lazy groups: next_batch_ms
-- @lazy counters: count, append_run
-- @lazy results: append_worker, add_error, notify_waiters
-- @lazy unique: release
-- @lazy flow: fail_followers
-- @lazy lost_flows: continue_work
-- @lazy failed_index: keep_failed, trim_failed
-- @lazy error_stats: record_error, write_errors
-- @lazy limit_queue: remove_holder
-- @lazy termination: finish_cancelled
-- @lazy pruning: prune_index, prune_finished, prune_waiting, prune_flows, serve_limited, forget_empty_queue, roll_up, add_class_hours, prune_workers
-- @include contact

-- Tasks waiting for others, or for a limit, that one call samples in each queue that it prunes.
local SAMPLES = 20
local MAX_RECOVERED = 200
-- Failed tasks beyond the limit, which was lowered, that one call deletes in each queue.
local MAX_TRIMMED = 100

-- Another poller has the lease: this one only needs to know for how long. Its contact is recorded if it may tell of a gap.
local poller_key = base .. ":" .. K.poller
local holder = redis.call("GET", poller_key)
local left_ms = holder and holder ~= poller and redis.call("PTTL", poller_key)
-- A longer TTL than any: the clock was set back. The holder may be dead, and would stay the holder for hours.
local is_passive = left_ms and left_ms <= 2 * poller_lease_ms
if is_passive and contact ~= "new" and contact ~= "error" then
  return { 0, left_ms, 0, {}, 0, 1, 0 }
end
local ctx = new_context(base)
ctx.finished_limit, ctx.finished_ttl_ms = finished_limit, finished_ttl_ms
local next_due_ms = 0

local function see_due(due_ms)
  if due_ms and (next_due_ms == 0 or due_ms < next_due_ms) then
    next_due_ms = due_ms
  end
end

-- Return the run id of the server; nil where the caller may not read it. Then a caller's error may hide a restart.
local function run_id()
  local info = redis.pcall("INFO", "server")
  return type(info) == "string" and string.match(info, "run_id:(%w+)") or nil
end

-- An idle round recovers nothing, so it need not know whether the server was restarted: the next round asks.
local is_idle = contact == "idle"
local server = not is_idle and run_id() or nil
local is_broken = not server and contact == "error"
local hold_until_ms, latest_ms = record_contact(ctx, lease_ms, contact == "new", server, is_broken)
if is_passive then
  return { 0, left_ms, 0, {}, 0, 1, 0 }
end
redis.call("SET", poller_key, poller, "PX", poller_lease_ms)

local recovered = {}

local function add_recovered(id, queue, outcome)
  local size = #recovered
  recovered[size + 1], recovered[size + 2], recovered[size + 3] = id, queue, outcome
end

-- Fail a task that has lost too many workers.
local function fail_lost(id, queue, name)
  local record = task_key(ctx, id)
  local waiters, claim, flow_ref = unpack(redis.call("HMGET", record, F.waiters, F.unique_claim, F.flow_ref))
  redis.call("HSET", record, F.state, S.failed, F.finished_at_us, ctx.now_us)
  results().add_error(ctx, id, lost_error, keep_ms)
  counters().count(ctx, queue, name, O.failed)
  error_stats().record_error(ctx, queue, id, lost_fingerprint, lost_description, true, keep_ms)
  failed_index().keep_failed(ctx, id, queue, keep_ms, failed_limit)
  results().notify_waiters(ctx, id, waiters)
  if claim then
    unique().release(ctx, id, claim, true)
  end
  if flow_ref then
    flow().fail_followers(ctx, id, flow_ref, "failed")
  end
end

-- Recover a task of a dead worker: return it to the head of the requeued list. It is cancelled if that was requested, and
-- fails if it was lost too often.
local function recover(id, queue)
  local record = task_key(ctx, id)
  redis.call("ZREM", queue_key(ctx, queue, P.running), id)
  local state, deliveries, own_max, worker_ids, lease, name, leased_us, history, concurrency, cancel_request = unpack(
    redis.call("HMGET", record, F.state, F.deliveries, F.max_deliveries, F.worker_ids, F.lease, F.task_name,
      F.leased_at_us, F.history, F.concurrency, F.cancel_request))
  if state ~= S.running then
    return
  end
  if concurrency then
    limit_queue().remove_holder(ctx, id, queue, concurrency)
  end
  local deaths, dead_worker = tonumber(deliveries or 0) + 1, string.match(lease, "^[^/]+")
  redis.call("HSET", record, F.deliveries, deaths, F.worker_ids, results().append_worker(worker_ids, dead_worker),
    F.history, counters().append_run(ctx, history, O.recovered, leased_us, dead_worker))
  counters().count(ctx, queue, name, O.recovered)
  redis.call("HINCRBY", record, F.runs, 1)
  redis.call("HDEL", record, F.lease)
  if cancel_request then
    termination().finish_cancelled(ctx, id, string.match(cancel_request, "%d+$"))
    counters().count(ctx, queue, name, O.cancelled)
    add_recovered(id, queue, O.cancelled)
  elseif deaths >= tonumber(own_max or max_deliveries) then
    fail_lost(id, queue, name)
    add_recovered(id, queue, O.failed)
  else
    requeue(ctx, id, queue, P.requeued, "LPUSH")
    notify_queue(ctx, queue)
    add_recovered(id, queue, O.requeued)
  end
end

-- Recover the tasks of a queue whose leases end between two moments; at most 200 in a call, of all queues.
local function recover_expired(queue, from_ms, to_ms)
  local room = MAX_RECOVERED - #recovered / 3
  local expired = redis.call("ZRANGEBYSCORE", queue_key(ctx, queue, P.running), from_ms, to_ms, "LIMIT", 0, room)
  for index = #expired, 1, -1 do
    recover(expired[index], queue)
  end
end

-- Delete what a queue has kept for too long. Return whether the queue was deleted from the index.
local function prune_queue(queue)
  pruning().prune_index(ctx, queue, P.failed, keep_ms)
  failed_index().trim_failed(ctx, queue, failed_limit, MAX_TRIMMED)
  pruning().prune_index(ctx, queue, P.errors, keep_ms)
  pruning().prune_index(ctx, queue, P.retrying, 0)
  pruning().prune_finished(ctx, queue)
  pruning().prune_workers(ctx, queue_key(ctx, queue, P.workers))
  if redis.call("EXISTS", queue_key(ctx, queue, P.limited)) == 1 then
    pruning().serve_limited(ctx, queue, SAMPLES)
  end
  pruning().prune_waiting(ctx, queue, SAMPLES, keep_ms)
  return pruning().forget_empty_queue(ctx, queue)
end

-- Return when the queue must be looked at next, nil if it has no such time. Notify its workers of due tasks.
local function check_due(queue, has_pauses)
  local was_paused = has_pauses and redis.call("HEXISTS", base_key(ctx, K.paused), queue) == 1
  local until_ms = was_paused and paused_until(ctx, queue)
  local due_ms
  if until_ms then
    due_ms = until_ms > 0 and until_ms or nil
  else
    local score = redis.call("ZRANGE", queue_key(ctx, queue, P.scheduled), 0, 0, "WITHSCORES")[2]
    due_ms = score and math.ceil(score)
    if was_paused then
      notify_queue(ctx, queue)
    end
  end
  local has_turns = redis.call("EXISTS", queue_key(ctx, queue, P.turns)) == 1
  local batch_ms = has_turns and not until_ms and groups().next_batch_ms(ctx, queue)
  due_ms = batch_ms and math.min(batch_ms, due_ms or batch_ms) or due_ms
  if due_ms and due_ms <= ctx.now_ms then
    notify_queue(ctx, queue)
    due_ms = ctx.now_ms + 1000
  elseif has_turns then
    notify_queue(ctx, queue) -- a worker of a version without groups may have received the wakeup
  end
  return due_ms
end

next_due_ms = first == 0 and lost_flows().continue_work(ctx) and ctx.now_ms or 0
local queues = redis.call("ZRANGE", base_key(ctx, K.queues), first, first + 499)
local forgotten, is_busy = 0, 0
local has_pauses = #queues > 0 and redis.call("EXISTS", base_key(ctx, K.paused)) == 1
for _, queue in ipairs(queues) do
  local due_ms = check_due(queue, has_pauses)
  see_due(due_ms)
  if due_ms then
    is_busy = 1
  end
  if redis.call("EXISTS", queue_key(ctx, queue, P.running)) == 1 then
    is_busy = 1
    if is_idle then
      next_due_ms = ctx.now_ms -- a full round follows at once
    elseif ctx.now_ms < hold_until_ms then
      recover_expired(queue, 0, 0) -- their processes have exited, so no process can renew them
    else
      recover_expired(queue, "-inf", ctx.now_ms)
      recover_expired(queue, string.format("(%.0f", latest_ms), "+inf") -- leased before the clock was set back
    end
  end
  if prune and prune_queue(queue) then
    forgotten = forgotten + 1
  end
end
if ctx.errors then
  error_stats().write_errors(ctx)
end
if #recovered == 3 * MAX_RECOVERED then
  next_due_ms = ctx.now_ms
end
if prune then
  pruning().roll_up(ctx, queues, first)
  pruning().add_class_hours(ctx, queues, first)
  pruning().prune_workers(ctx, base_key(ctx, K.workers))
  pruning().prune_flows(ctx, SAMPLES)
end
flush(ctx)
local next = #queues == 500 and first + 500 - forgotten or 0
local schedules_version = tonumber(redis.call("GET", base_key(ctx, K.schedules_version)) or 0)
return { 1, next_due_ms, ctx.now_us, recovered, next, is_busy, schedules_version }
