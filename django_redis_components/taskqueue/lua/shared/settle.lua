-- Apply the outcomes of runs.
-- Reads in ctx: worker, failed_limit, now_text. Collects in ctx: settled, ids that do not run any more by queue; used_limits.
-- @include context
-- @lazy limit_queue: free_slot
-- @lazy counters: count, append_run
-- @lazy error_stats: record_error
-- @lazy results: append_worker, notify_waiters
-- @lazy unique: release
-- @lazy flow: task_succeeded, fail_followers
-- @lazy outcomes: apply

-- Outcomes after which a task runs again, unless its cancellation was requested.
local RUNS_AGAIN = { retry = true, later = true, back = true, park = true }

-- The event that each outcome counts as. A run that did not start (`back`) counts as none.
local EVENT_OF = {
  ok = "succeeded", fail = "failed", retry = "retried", later = "put_off", park = "unregistered", cancel = "cancelled",
}

-- Count one outcome. `note`: microseconds that the body ran; after a failure also its fingerprint, and the description.
-- The task has waited since it was enqueued, due or put into a list again.
local function count_outcome(ctx, run, outcome, event, note, ttl_ms)
  local ran_us = tonumber(note)
  if not ran_us then
    local ran, fingerprint, about = string.match(note, "^(%d+) (%x+) (.*)")
    ran_us = tonumber(ran)
    if fingerprint then
      error_stats().record_error(ctx, run.queue, run.id, fingerprint, about, outcome == "fail", ttl_ms)
    end
  end
  local since_us = tonumber(run.enqueued_us)
  if run.due_ms then
    since_us = math.max(since_us, tonumber(run.due_ms) * 1000)
  end
  if run.placed_us then
    since_us = math.max(since_us, tonumber(run.placed_us))
  end
  counters().count(ctx, run.queue, run.name, event, run.leased_us - since_us, ran_us)
end

-- A successful run is not in the history: the record's other fields describe it.
local function succeed(ctx, run, return_value, ttl_ms)
  redis.call("HSET", run.record, F.state, S.successful, F.finished_at_us, ctx.now_text, F.return_value, return_value,
    F.worker_ids, run.worker_ids)
  redis.call("PEXPIRE", run.record, ttl_ms)
  if run.waiters then
    results().notify_waiters(ctx, run.id, run.waiters)
  end
  if run.claim then
    unique().release(ctx, run.id, run.claim, true)
  end
  if run.flow_ref then
    flow().task_succeeded(ctx, run.id, run.flow_ref)
  end
end

local function fail(ctx, run)
  results().notify_waiters(ctx, run.id, run.waiters)
  if run.claim then
    unique().release(ctx, run.id, run.claim, true)
  end
  if run.flow_ref then
    flow().fail_followers(ctx, run.id, run.flow_ref, "failed")
  end
end

-- Apply one outcome if the lease under which it was earned is still the task's.
-- Return 1: applied; 2: applied before (the reply was lost); 0: the lease has expired.
local function settle_run(ctx, id, token, outcome, payload, delay_ms, ttl_ms, note)
  local record = task_key(ctx, id)
  local lease, state, queue, earlier_ids, waiters, claim, flow_ref, name, enqueued_us, due_ms, placed_us, leased_us,
    concurrency, cancel_request = unpack(redis.call("HMGET", record, F.lease, F.state, F.queue, F.worker_ids, F.waiters,
      F.unique_claim, F.flow_ref, F.task_name, F.enqueued_at_us, F.due_at_ms, F.placed_at_us, F.leased_at_us,
      F.concurrency, F.cancel_request))
  if lease ~= token then
    return 0
  end
  if state ~= S.running then
    return 2
  end
  local settled = ctx.settled[queue] or {}
  ctx.settled[queue] = settled
  settled[#settled + 1] = id
  if concurrency then
    ctx.used_limits = true
    limit_queue().free_slot(ctx, id, queue, concurrency)
  end
  local worker_ids = earlier_ids and results().append_worker(earlier_ids, ctx.worker) or ctx.worker
  if cancel_request and RUNS_AGAIN[outcome] then
    worker_ids = outcome == "retry" and worker_ids or earlier_ids or ""
    outcome, ttl_ms = "cancel", string.match(cancel_request, "%d+$")
  end
  local run = {
    id = id, record = record, queue = queue, name = name, worker_ids = worker_ids, waiters = waiters, claim = claim,
    flow_ref = flow_ref, enqueued_us = enqueued_us, due_ms = due_ms, placed_us = placed_us, leased_us = leased_us,
  }
  local event = EVENT_OF[outcome]
  if event then
    count_outcome(ctx, run, outcome, event, note, ttl_ms)
  end
  if outcome == "ok" then
    succeed(ctx, run, payload, ttl_ms)
    return 1
  end
  if event then
    local history = redis.call("HGET", record, F.history)
    run.history = counters().append_run(ctx, history, event, run.leased_us, ctx.worker)
  end
  outcomes().apply(ctx, run, outcome, payload, delay_ms, ttl_ms)
  if outcome == "fail" then
    fail(ctx, run)
  end
  return 1
end

-- End the leases of the settled tasks. A call has at most 500 outcomes, which bounds the arguments of one command.
local function end_leases(ctx)
  for queue, ids in pairs(ctx.settled) do
    redis.call("ZREM", queue_key(ctx, queue, P.running), unpack(ids))
  end
end
