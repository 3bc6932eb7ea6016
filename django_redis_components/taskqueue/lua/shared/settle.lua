-- Apply the outcomes of runs.
-- Reads in ctx: worker, failed_limit, finished_limit, now_text. Collects in ctx: settled, ids that do not run any more by
-- queue; successes, rows of successful tasks by queue; used_limits. Sets ctx.finish for these rows.
-- @include context
-- @include finished_list
-- @lazy counters: count, append_run
-- @lazy rare: limit_queue, results, unique, error_stats, flow, outcomes

-- Outcomes after which a task runs again, unless its cancellation was requested.
local RUNS_AGAIN = {
  [O.retried] = true, [O.delayed] = true, [O.interrupted] = true, [O.requeued] = true, [O.unregistered] = true,
}

-- Fields that every running record has: those read here, the message, and when it was first leased.
local PLAIN_FIELDS = 8

-- Return what a record tells about its run. To count its fields costs less than to read ten that a plain task does not have:
-- options, limits, earlier runs, clients that wait.
local function read_run(record)
  if redis.call("HLEN", record) <= PLAIN_FIELDS then
    return unpack(redis.call("HMGET", record, F.lease, F.state, F.queue, F.task_name, F.enqueued_at_us, F.leased_at_us))
  end
  return unpack(redis.call("HMGET", record, F.lease, F.state, F.queue, F.task_name, F.enqueued_at_us, F.leased_at_us,
    F.worker_ids, F.waiters, F.unique_claim, F.flow_ref, F.due_at_ms, F.placed_at_us, F.concurrency, F.cancel_request,
    F.first_leased_at_us, F.attempts))
end

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

-- Apply one outcome if the lease under which it was earned is still the task's. `ran_us` is 0 if the function did not run, and
-- negative if the run is counted for another call of its batch;
-- `detail` is delay_ms, or the start of the message if it succeeded; `fingerprint` and `description` are nil without an
-- error, and empty if it is not counted.
-- Return 1: applied; 2: applied before (the reply was lost); 0: the lease has expired.
local function settle_run(ctx, id, token, outcome, payload, detail, ttl_ms, ran_us, fingerprint, description)
  local record = task_key(ctx, id)
  local lease, state, queue, name, enqueued_us, leased_us, earlier_ids, waiters, claim, flow_ref, due_ms, placed_us,
    concurrency, cancel_request, first_us, attempts = read_run(record)
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
    worker_ids = (outcome == O.retried or outcome == O.interrupted) and worker_ids or earlier_ids or ""
    outcome, ttl_ms = O.cancelled, string.match(cancel_request, "%d+$")
  end
  if outcome ~= O.requeued and outcome ~= O.interrupted then
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
    if ctx.finished_limit > 0 then
      local rows = ctx.successes[queue] or {}
      ctx.successes[queue] = rows
      local earlier = first_us and first_us .. "\t" .. (attempts or "") or "\t"
      local shown_us = string.byte(ran_us) == 45 and string.sub(ran_us, 2) or ran_us -- without "-"
      rows[#rows + 1] = row(id, ctx.finish, enqueued_us, leased_us, shown_us, earlier, name, detail)
    end
  else
    local run = { id = id, record = record, queue = queue, worker_ids = worker_ids }
    if outcome ~= O.requeued then
      local history = redis.call("HGET", record, F.history)
      redis.call("HINCRBY", record, F.runs, 1)
      run.history = counters().append_run(ctx, history, outcome, leased_us, ctx.worker)
    end
    rare().outcomes().apply(ctx, run, outcome, payload, detail, ttl_ms)
  end
  if (outcome == O.succeeded or outcome == O.failed) and (waiters or claim or flow_ref) then
    release_task(ctx, id, outcome, waiters, claim, flow_ref)
  end
  return 1
end

-- Apply the outcomes in args from `first`, as fetch.lua takes them. A call has at most 500, which bounds the arguments of
-- one command. Return what `settle_run` has returned for each.
local function settle_all(ctx, args, first)
  ctx.settled, ctx.successes, ctx.finish = {}, {}, finish_text(ctx.now_text, ctx.worker)
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
  for queue, rows in pairs(ctx.successes) do
    add_rows(ctx, queue, S.successful, rows)
  end
  if ctx.errors then
    rare().error_stats().write_errors(ctx)
  end
  return acks
end
