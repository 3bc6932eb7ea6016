-- Take tasks from a queue and lease them.
-- Reads in ctx: worker, token, want, lease_until (when leases end, text), now_text (microseconds, text).
-- Collects in ctx: tasks, the rows of the reply; skipped, how many tasks the call passed over; used_limits, whether one of
-- them had limits; grouped, how many of them were put into their groups; has_turns, whether a queue has groups.
-- @include context
-- @lazy rare: admit, enter_stray

-- Most tasks that one call passes over, so that the server serves others in between.
local MAX_SKIPPED = 500

local function wants_more(ctx)
  return #ctx.tasks < ctx.want and ctx.skipped < MAX_SKIPPED
end

-- Fields that every record has: those read here, and the queue.
local PENDING_FIELDS = 4

-- Return what a record tells about its start. To count its fields costs less than to read eight that a plain one does not have.
local function read_pending(record)
  if redis.call("HLEN", record) <= PENDING_FIELDS then
    return unpack(redis.call("HMGET", record, F.task_name, F.body, F.enqueued_at_us))
  end
  return unpack(redis.call("HMGET", record, F.task_name, F.body, F.enqueued_at_us, F.state, F.attempts, F.runs,
    F.first_leased_at_us, F.expiry, F.unique_claim, F.concurrency, F.rate, F.fair_share))
end

-- Lease a popped task and return true. Cancelled, deleted and expired tasks, and those that wait for a limit or for the turn of
-- their group, are skipped. `has_turn`: the task, if it has a group, starts in this turn.
local function lease(ctx, id, queue, has_turn)
  local record = task_key(ctx, id)
  local name, body, enqueued_us, state, attempts, runs, first_leased_us, expiry, claim, concurrency, rate, share =
    read_pending(record)
  if share and not has_turn and state ~= S.cancelled then
    rare().enter_stray(ctx, id, queue, share)
    return
  end
  local is_ordinary = body and state ~= S.cancelled and not (expiry or claim or concurrency or rate)
  if not is_ordinary and not rare().admit(ctx, id, queue, name, body, state, expiry, claim, concurrency or rate) then
    ctx.skipped = ctx.skipped + 1
    return
  end
  first_leased_us = first_leased_us or ctx.now_text
  redis.call("HSET", record, F.state, S.running, F.lease, ctx.token, F.leased_at_us, ctx.now_text,
    F.first_leased_at_us, first_leased_us)
  ctx.tasks[#ctx.tasks + 1] =
    { id, ctx.token, name, body, queue, attempts or 0, runs or 0, enqueued_us, first_leased_us }
  return true
end

-- Lease popped tasks: one command enters all of them, before any other that could fail; skipped tasks are removed again.
-- Return whether the last one was leased.
local function lease_all(ctx, ids, queue, has_turn)
  local running = queue_key(ctx, queue, P.running)
  for first = 1, #ids, 500 do
    local entries = {}
    for index = first, math.min(first + 499, #ids) do
      entries[#entries + 1] = ctx.lease_until
      entries[#entries + 1] = ids[index]
    end
    redis.call("ZADD", running, unpack(entries))
  end
  local is_leased
  for _, id in ipairs(ids) do
    is_leased = lease(ctx, id, queue, has_turn)
    if not is_leased then
      redis.call("ZREM", running, id)
    end
  end
  return is_leased
end

-- Return how many of these exist: the queue's lists and zsets but the ready list, and other keys.
local function count_others(ctx, queue, ...)
  local prefix = queue_key(ctx, queue, "")
  return redis.call("EXISTS", prefix .. P.priority, prefix .. P.requeued, prefix .. P.scheduled, prefix .. P.turns, ...)
end

-- Lease the next tasks without a group, at most `count`: by priority, then ready ones. Return false if there is none.
local function lease_next(ctx, queue, others, count)
  local priority, ready = queue_key(ctx, queue, P.priority), queue_key(ctx, queue, P.ready)
  local id, score
  if others > 0 then
    id, score = unpack(redis.call("ZRANGE", priority, 0, 0, "WITHSCORES"))
  end
  if id and (tonumber(score) < 0 or redis.call("EXISTS", ready) == 0) then
    redis.call("ZREM", priority, id)
    lease_all(ctx, { id }, queue)
    return true
  end
  local popped = redis.call("LPOP", ready, id and 1 or count)
  if popped then
    lease_all(ctx, popped, queue)
  end
  return popped
end

-- @lazy other_lists: lease_requeued, lease_due, lease_grouped

-- Lease tasks of a queue: requeued ones, due ones, then by priority; if it has groups, in turn with theirs. Return whether it
-- had only ready tasks. `others`: see `count_others`.
local function lease_from(ctx, queue, others)
  if others > 0 then
    other_lists().lease_requeued(ctx, queue)
    other_lists().lease_due(ctx, queue)
    other_lists().lease_grouped(ctx, queue, others)
  end
  while wants_more(ctx) and lease_next(ctx, queue, others, ctx.want - #ctx.tasks) do
  end
  if ctx.grouped and wants_more(ctx) then
    other_lists().lease_grouped(ctx, queue, others)
  end
  return others == 0
end
