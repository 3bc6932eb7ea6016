-- Acquire the limits of a task that is about to start.
-- @include context
-- @lazy limit_queue: limits_of, entry_id, first_entry, requeue_entry, free_count, remove_lost_holder, serve_waiter
-- @lazy limit_queue: serve_waiter_in, rate_of, next_start_us, count_start, reserve, reserve_next, reserved_by_other
-- @lazy limit_queue: group_of, limit_turns

-- placed_at_us tells cancel.lua that no purge before has removed the task.
local function enqueue_waiter(ctx, queue, entry)
  redis.call("HSET", task_key(ctx, limit_queue().entry_id(entry)), F.placed_at_us, ctx.now_us)
  redis.call("ZADD", queue_key(ctx, queue, P.limited), 0, entry)
end

local function register_waiting_queue(ctx, limit, queue)
  local waiters = base_key(ctx, K.concurrency_waiters, limit)
  redis.call("ZADD", waiters, ctx.now_ms, queue)
  redis.call("PEXPIRE", waiters, T.limit_ms)
end

-- Return whether the limit has room and no other task comes first. If not, the task waits for it.
local function may_hold(ctx, limits)
  local limit, queue, limiter = limits.concurrency, limits.queue, limit_queue()
  local free = limiter.free_count(ctx, limit, limits.max_running)
  if free <= 0 then
    free = free + limiter.remove_lost_holder(ctx, limit)
  end
  local first = free > 0 and limiter.first_entry(ctx, limit, queue)
  if limits.group or ctx.has_turns or first and limiter.group_of(limit, first) then
    local is_held = limit_queue().limit_turns().hold_in_turn(ctx, limits, free, first)
    if not is_held then
      redis.call("HSET", task_key(ctx, limits.id), F.placed_at_us, ctx.now_us) -- see enqueue_waiter
      register_waiting_queue(ctx, limit, queue)
    end
    return is_held
  elseif free > 0 and not (first and first < limits.concurrency_entry) then
    return true
  end
  if first then
    limiter.requeue_entry(ctx, queue, first)
  end
  enqueue_waiter(ctx, queue, limits.concurrency_entry)
  register_waiting_queue(ctx, limit, queue)
  return false
end

-- Return whether the rate lets the task start now. If not, it gets the next start or waits behind the task that has it.
local function has_start(ctx, limits)
  local queue, entry, limiter = limits.queue, limits.rate_entry, limit_queue()
  local scheduled, limited = queue_key(ctx, queue, P.scheduled), queue_key(ctx, queue, P.limited)
  local start_us, reserved = limiter.next_start_us(ctx, limits), limiter.reserved_by_other(ctx, limits)
  local is_behind = reserved and (reserved < entry or limiter.group_of(limits.rate, reserved) ~= limits.group)
  if is_behind then
    local interval_us, earliest_us = limiter.rate_of(ctx, limits), math.max(start_us, ctx.now_us)
    redis.call("ZADD", scheduled, "XX", "LT", math.ceil(earliest_us / 1000), limiter.entry_id(reserved))
    enqueue_waiter(ctx, queue, entry)
    local ahead
    if limits.group then
      limit_queue().limit_turns().join_turns(ctx, limits.rate, queue, limits.group)
      ahead = limit_queue().limit_turns().count_ahead(ctx, limits.rate, queue, limits.group, entry) + 1
    else
      ahead = redis.call("ZLEXCOUNT", limited, "[" .. limits.rate .. "\t", "[" .. entry)
    end
    local due_ms = math.ceil((earliest_us + ahead * interval_us) / 1000)
    redis.call("HSET", task_key(ctx, limits.id), F.state, S.scheduled, F.due_at_ms, due_ms)
    return false
  end
  if start_us <= ctx.now_us then
    return true
  end
  if reserved and redis.call("ZREM", scheduled, limiter.entry_id(reserved)) == 1 then
    redis.call("ZADD", limited, 0, reserved)
    if limits.group then
      limit_queue().limit_turns().join_turns(ctx, limits.rate, queue, limits.group)
    end
  end
  limiter.reserve(ctx, queue, entry, start_us)
  return false
end

-- Return whether the limits of a task let it start now; then it is a holder, and its start is counted.
local function acquire(ctx, id, queue)
  local limiter = limit_queue()
  local limits = limiter.limits_of(ctx, id, queue)
  if limits.concurrency and not may_hold(ctx, limits) then
    return false
  end
  if limits.rate and not has_start(ctx, limits) then
    if limits.concurrency then
      limiter.serve_waiter(ctx, limits.concurrency, limits.max_running, queue)
    end
    return false
  end
  if limits.concurrency then
    redis.call("ZADD", base_key(ctx, K.holders, limits.concurrency), ctx.now_ms, id)
    if redis.call("EXISTS", queue_key(ctx, queue, P.requeued)) == 0 then
      limiter.serve_waiter_in(ctx, limits.concurrency, limits.max_running, queue)
    end
  end
  if limits.rate then
    limiter.count_start(ctx, limits)
    if not limiter.reserved_by_other(ctx, limits) then
      limiter.reserve_next(ctx, limits)
    end
  end
  return true
end
