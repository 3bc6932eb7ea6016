-- Take tasks from a queue and lease them.
-- Reads in ctx: worker, token, want, lease_until (when leases end, text), now_text (microseconds, text).
-- Collects in ctx: tasks, the rows of the reply; skipped, how many tasks the call passed over; used_limits, whether one of
-- them had limits.
-- @include placement
-- @include times
-- @lazy limit_queue: leave
-- @lazy limit_acquire: acquire
-- @lazy counters: count
-- @lazy unique: release
-- @lazy termination: finish_expired

-- Most tasks that one call passes over, so that the server serves others in between.
local MAX_SKIPPED = 500
-- Crash suspects: tasks whose workers have died (field deliveries: how many). Each is leased alone in a call; one that
-- has one death left, or has seen two, only while its worker process runs no other such task. Otherwise a crash would
-- count for the same neighbours again and again.
local MANY_DEATHS = 2
-- Most suspects that one call sets aside to look behind them.
local MAX_ASIDE = 10

local function wants_more(ctx)
  return #ctx.tasks < ctx.want and ctx.skipped < MAX_SKIPPED
end

local function remove_tombstone(ctx, queue)
  local tombstones = queue_key(ctx, queue, P.tombstones)
  if redis.call("EXISTS", tombstones) == 1 and redis.call("DECR", tombstones) <= 0 then
    redis.call("DEL", tombstones)
  end
end

-- Lease a popped task and return true. Cancelled, deleted and expired tasks, and those that wait for a limit, are skipped.
local function lease(ctx, id, queue)
  local record = task_key(ctx, id)
  local name, body, state, attempts, deliveries, enqueued_us, first_leased_us, expiry, claim, concurrency, rate = unpack(
    redis.call("HMGET", record, F.task_name, F.body, F.state, F.attempts, F.deliveries, F.enqueued_at_us,
      F.first_leased_at_us, F.expiry, F.unique_claim, F.concurrency, F.rate))
  if not body or state == S.cancelled then
    ctx.skipped = ctx.skipped + 1
    if not body then
      redis.call("DEL", record) -- fields that were written after the record had been deleted
    end
    return remove_tombstone(ctx, queue)
  end
  local is_limited = concurrency or rate
  ctx.used_limits = ctx.used_limits or is_limited
  if expiry and has_expired(ctx, expiry, redis.call("HGET", record, F.worker_ids)) then
    ctx.skipped = ctx.skipped + 1
    if is_limited then
      limit_queue().leave(ctx, id, queue)
    end
    counters().count(ctx, queue, name, "expired")
    return termination().finish_expired(ctx, id, expiry)
  end
  if is_limited and not limit_acquire().acquire(ctx, id, queue) then
    ctx.skipped = ctx.skipped + 1
    return
  end
  if claim and string.sub(claim, 1, 1) == "s" then
    unique().release(ctx, id, claim, true)
  end
  first_leased_us = first_leased_us or ctx.now_text
  redis.call("HSET", record, F.state, S.running, F.lease, ctx.token, F.leased_at_us, ctx.now_text,
    F.first_leased_at_us, first_leased_us)
  ctx.tasks[#ctx.tasks + 1] =
    { id, ctx.token, name, body, queue, attempts or 0, deliveries or 0, enqueued_us, first_leased_us }
  return true
end

-- Lease popped tasks: one command enters all of them, before any other that could fail; skipped tasks are removed again.
-- Return whether the last one was leased.
local function lease_all(ctx, ids, queue)
  local running = queue_key(ctx, queue, P.running)
  for first = 1, #ids, 500 do
    local entries = {}
    for at = first, math.min(first + 499, #ids) do
      entries[#entries + 1] = ctx.lease_until
      entries[#entries + 1] = ids[at]
    end
    redis.call("ZADD", running, unpack(entries))
  end
  local is_leased
  for _, id in ipairs(ids) do
    is_leased = lease(ctx, id, queue)
    if not is_leased then
      redis.call("ZREM", running, id)
    end
  end
  return is_leased
end

-- Return whether the worker runs a crash suspect that must run alone.
local function is_in_quarantine(ctx)
  local id = redis.call("GET", base_key(ctx, K.quarantine, ctx.worker))
  if not id then
    return false
  end
  local state, token = unpack(redis.call("HMGET", task_key(ctx, id), F.state, F.lease))
  return state == S.running and string.sub(token, 1, #ctx.worker + 1) == ctx.worker .. "/"
end

-- Lease tasks of the requeued list. After a suspect the call takes no more.
local function lease_requeued(ctx, queue)
  local requeued, aside = queue_key(ctx, queue, P.requeued), {}
  while wants_more(ctx) and #aside < MAX_ASIDE do
    local id = redis.call("LPOP", requeued)
    if not id then
      break
    end
    local deliveries, max_deliveries = unpack(redis.call("HMGET", task_key(ctx, id), F.deliveries, F.max_deliveries))
    local deaths = tonumber(deliveries or 0)
    local must_run_alone = deaths >= math.min(MANY_DEATHS, tonumber(max_deliveries or 3) - 1)
    if deaths > 0 and #ctx.tasks > 0 then
      redis.call("LPUSH", requeued, id)
      ctx.want = #ctx.tasks
    elseif deaths > 0 and must_run_alone and is_in_quarantine(ctx) then
      aside[#aside + 1] = id
    elseif lease_all(ctx, { id }, queue) and deaths > 0 then
      ctx.want = #ctx.tasks
      if must_run_alone then
        redis.call("SET", base_key(ctx, K.quarantine, ctx.worker), id, "PX", T.quarantine_ms)
      end
    end
  end
  for at = #aside, 1, -1 do
    redis.call("LPUSH", requeued, aside[at])
  end
end

local function lease_due(ctx, queue)
  local scheduled = queue_key(ctx, queue, P.scheduled)
  while wants_more(ctx) do
    local due = redis.call("ZRANGEBYSCORE", scheduled, "-inf", ctx.now_ms, "LIMIT", 0, ctx.want - #ctx.tasks)
    if #due == 0 then
      break
    end
    redis.call("ZREMRANGEBYRANK", scheduled, 0, #due - 1)
    lease_all(ctx, due, queue)
  end
end

-- Lease tasks of a queue: requeued ones, due ones, then by priority. Return whether it had only ready tasks.
local function lease_from(ctx, queue)
  local priority, ready = queue_key(ctx, queue, P.priority), queue_key(ctx, queue, P.ready)
  local others = redis.call("EXISTS", priority, queue_key(ctx, queue, P.requeued), queue_key(ctx, queue, P.scheduled))
  if others > 0 then
    lease_requeued(ctx, queue)
    lease_due(ctx, queue)
  end
  while wants_more(ctx) do
    local id, score = unpack(others > 0 and redis.call("ZRANGE", priority, 0, 0, "WITHSCORES") or {})
    if id and (tonumber(score) < 0 or redis.call("EXISTS", ready) == 0) then
      redis.call("ZREM", priority, id)
      lease_all(ctx, { id }, queue)
    else
      local popped = redis.call("LPOP", ready, id and 1 or ctx.want - #ctx.tasks)
      if not popped then
        break
      end
      lease_all(ctx, popped, queue)
    end
  end
  return others == 0
end
