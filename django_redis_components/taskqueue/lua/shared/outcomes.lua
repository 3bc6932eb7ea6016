-- Outcomes of a run other than success. Each gets the run, the payload, delay_ms and ttl_ms. A run that did not start, or
-- does not count, leaves the worker ids as they were.
-- @include placement
-- @lazy results: add_error
-- @lazy failed_index: keep_failed
-- @lazy unique: reacquire_key
-- @lazy termination: finish_cancelled

local outcomes_by_name = {}

-- A delay is rounded up to the next millisecond: nothing is due before it has passed.
local function due_after(ctx, delay_ms)
  return tonumber(delay_ms) > 0 and math.ceil(ctx.now_us / 1000) + tonumber(delay_ms) or ctx.now_ms
end

outcomes_by_name[O.failed] = function(ctx, run, payload, _, ttl_ms)
  redis.call("HSET", run.record, F.state, S.failed, F.finished_at_us, ctx.now_us, F.worker_ids, run.worker_ids,
    F.history, run.history)
  redis.call("HINCRBY", run.record, F.attempts, 1)
  results().add_error(ctx, run.id, payload, ttl_ms)
  failed_index().keep_failed(ctx, run.id, run.queue, ttl_ms, ctx.failed_limit)
end

outcomes_by_name[O.retried] = function(ctx, run, payload, delay_ms, ttl_ms)
  local due_ms = due_after(ctx, delay_ms)
  redis.call("HSET", run.record, F.state, S.retrying, F.due_at_ms, due_ms, F.worker_ids, run.worker_ids,
    F.history, run.history)
  redis.call("HINCRBY", run.record, F.attempts, 1)
  results().add_error(ctx, run.id, payload, ttl_ms)
  redis.call("ZADD", queue_key(ctx, run.queue, P.retrying), due_ms, run.id)
  schedule(ctx, run.queue, run.id, due_ms)
end

-- The task asked to run later, which uses no attempt.
outcomes_by_name[O.delayed] = function(ctx, run, _, delay_ms)
  local due_ms = due_after(ctx, delay_ms)
  redis.call("HSET", run.record, F.state, S.scheduled, F.due_at_ms, due_ms, F.history, run.history)
  schedule(ctx, run.queue, run.id, due_ms)
end

-- Its worker stopped while it iterated: return the task to the head of the requeued list. It continues at its cursor.
outcomes_by_name[O.interrupted] = function(ctx, run)
  redis.call("HSET", run.record, F.worker_ids, run.worker_ids, F.history, run.history)
  requeue(ctx, run.id, run.queue, P.requeued, "LPUSH")
  notify_queue(ctx, run.queue)
end

-- Leased, but not started: return the task to the head of the requeued list, as if it had not been leased.
outcomes_by_name[O.requeued] = function(ctx, run)
  local history, claim = unpack(redis.call("HMGET", run.record, F.history, F.unique_claim))
  -- A line of the history is "<outcome> <leased_us> …"; the last one is of the lease before this one.
  local last_us = history and string.match("\n" .. history, "\n%S+ (%d+)[^\n]*$")
  if last_us then
    redis.call("HSET", run.record, F.leased_at_us, last_us)
  else
    redis.call("HDEL", run.record, F.first_leased_at_us, F.leased_at_us)
  end
  if claim then
    unique().reacquire_key(ctx, run.id, claim)
  end
  requeue(ctx, run.id, run.queue, P.requeued, "LPUSH")
  notify_queue(ctx, run.queue)
end

-- The worker does not know the task's name.
outcomes_by_name[O.unregistered] = function(ctx, run)
  redis.call("HSET", run.record, F.state, S.unregistered, F.history, run.history)
  redis.call("ZADD", queue_key(ctx, run.queue, P.unregistered), ctx.now_us / 1000, run.id)
end

-- Cancelled while it ran; the payload may be the error that ended its last attempt.
outcomes_by_name[O.cancelled] = function(ctx, run, payload, _, ttl_ms)
  redis.call("HSET", run.record, F.worker_ids, run.worker_ids, F.history, run.history)
  if payload ~= "" then
    results().add_error(ctx, run.id, payload, ttl_ms)
  end
  termination().finish_cancelled(ctx, run.id, ttl_ms)
end

local function apply(ctx, run, outcome, payload, delay_ms, ttl_ms)
  outcomes_by_name[outcome](ctx, run, payload, delay_ms, ttl_ms)
end
