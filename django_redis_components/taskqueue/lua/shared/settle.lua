-- Apply the outcomes of runs.
-- Reads in ctx: worker, failed_limit, now_text. Collects in ctx: settled, ids that do not run any more by queue;
-- used_limits.
-- @include context
-- @lazy counters: count, append_run
-- @lazy rare: limit_queue, results, unique, error_stats, flow, outcomes

-- Outcomes after which a task runs again, unless its cancellation was requested.
local RUNS_AGAIN = { [O.retried] = true, [O.delayed] = true, [O.requeued] = true, [O.unregistered] = true }

-- Release what a finished task had, and let its flow go on.
local function release_task(ctx, id, outcome, waiters, claim, flow_ref)
  if waiters then
    rare().results().notify_waiters(ctx, id, waiters)
  end
  if claim then
    rare().unique().release(ctx, id, claim, true)
  end
  if flow_ref and outcome == O.succeeded then
    rare().flow().task_succeeded(ctx, id, flow_ref)
  elseif flow_ref then
    rare().flow().fail_followers(ctx, id, flow_ref, "failed")
  end
end

-- Apply one outcome if the lease under which it was earned is still the task's. `ran_us` is 0 if the function did not run;
-- `fingerprint` and `description` are nil without an error, and empty if it is not counted.
-- Return 1: applied; 2: applied before (the reply was lost); 0: the lease has expired.
local function settle_run(ctx, id, token, outcome, payload, delay_ms, ttl_ms, ran_us, fingerprint, description)
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
    rare().limit_queue().remove_holder(ctx, id, queue, concurrency)
  end
  local worker_ids = earlier_ids and rare().results().append_worker(earlier_ids, ctx.worker) or ctx.worker
  if cancel_request and RUNS_AGAIN[outcome] then
    worker_ids = outcome == O.retried and worker_ids or earlier_ids or ""
    outcome, ttl_ms = O.cancelled, string.match(cancel_request, "%d+$")
  end
  if outcome ~= O.requeued then
    -- The task has waited since it was enqueued, due or put into a list again.
    local since_us = math.max(enqueued_us, (due_ms or 0) * 1000, placed_us or 0)
    if fingerprint and fingerprint ~= "" then
      rare().error_stats().record_error(ctx, queue, id, fingerprint, description, outcome == O.failed, ttl_ms)
    end
    counters().count(ctx, queue, name, outcome, leased_us - since_us, ran_us ~= "0" and tonumber(ran_us) or nil)
  end
  if outcome == O.succeeded then
    -- A successful run is not in the history: the record's other fields describe it.
    redis.call("HSET", record, F.state, S.successful, F.finished_at_us, ctx.now_text, F.return_value, payload,
      F.worker_ids, worker_ids)
    redis.call("PEXPIRE", record, ttl_ms)
  else
    local run = { id = id, record = record, queue = queue, worker_ids = worker_ids }
    if outcome ~= O.requeued then
      local history = redis.call("HGET", record, F.history)
      redis.call("HINCRBY", record, F.runs, 1)
      run.history = counters().append_run(ctx, history, outcome, leased_us, ctx.worker)
    end
    rare().outcomes().apply(ctx, run, outcome, payload, delay_ms, ttl_ms)
  end
  if (outcome == O.succeeded or outcome == O.failed) and (waiters or claim or flow_ref) then
    release_task(ctx, id, outcome, waiters, claim, flow_ref)
  end
  return 1
end

-- Apply the outcomes in args from `first`, as fetch.lua takes them. A call has at most 500, which bounds the arguments of
-- one command. Return what `settle_run` has returned for each.
local function settle_all(ctx, args, first)
  ctx.settled = {}
  local acks = {}
  while first <= #args do
    local outcome = args[first + 2]
    local last = first + ((outcome == O.failed or outcome == O.retried) and 8 or 6)
    acks[#acks + 1] = settle_run(ctx, unpack(args, first, last))
    first = last + 1
  end
  for queue, ids in pairs(ctx.settled) do
    redis.call("ZREM", queue_key(ctx, queue, P.running), unpack(ids))
  end
  if ctx.errors then
    rare().error_stats().write_errors(ctx)
  end
  return acks
end
