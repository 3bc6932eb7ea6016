-- Tasks that wait for a limit over all workers. Each queue has one zset for them, in which those that wait for one limit
-- are adjacent, by priority, then by time of acceptance (tasks of one flow by their order in it). An entry is
-- "limit\tpriority\tenqueued_at_us\tid", a limit "c:<key>" (how many run at once) or "r:<key>" (how many start in a time).
-- Tasks of groups come first, group by group: "limit\t\tgroup\tpriority\tenqueued_at_us\tid". Of these limit_turns.lua tells the next.
-- A rate follows GCRA: a start moves the time of the next by an interval, and may come before it by a tolerance. For the
-- first task that waits for a rate in a queue the next start is reserved: it is scheduled for the exact moment.
-- @include group_placement
-- @include limit_key
-- @lazy groups: entry_order, parse_share, is_group_paused

-- Return a task's limits and its entries in the queues, nil if it has none.
local function limits_of(ctx, id, queue)
  local concurrency, rate, priority, enqueued_us, flow_ref, share = unpack(redis.call("HMGET", task_key(ctx, id),
    F.concurrency, F.rate, F.priority, F.enqueued_at_us, F.flow_ref, F.fair_share))
  if not concurrency and not rate then
    return nil
  end
  local limits = { id = id, queue = queue }
  local order = groups().entry_order(id, priority, enqueued_us, flow_ref)
  limits.order = order
  if share then
    local _, group = groups().parse_share(share)
    limits.group, order = group, "\t\t" .. group .. order
  end
  if concurrency then
    limits.concurrency, limits.max_running = parse_limit(F.concurrency, concurrency)
    limits.concurrency_entry = limits.concurrency .. order
  end
  if rate then
    limits.rate, limits.rate_numbers = parse_limit(F.rate, rate)
    limits.rate_entry = limits.rate .. order
  end
  return limits
end

-- Return a limit's numbers as the newest task stated them, else as this one does.
local function newest_numbers(ctx, limit, own)
  local numbers = redis.call("GET", base_key(ctx, K.limit, limit))
  if not numbers then
    store_limit(ctx, limit, own)
  end
  return numbers or own
end

-- Return the first entry of a range. Entries whose records were deleted are removed.
local function first_in(ctx, queue, from, to)
  local limited = queue_key(ctx, queue, P.limited)
  local entry
  for _ = 1, 1000 do
    entry = redis.call("ZRANGEBYLEX", limited, from, to, "LIMIT", 0, 1)[1]
    if not entry or redis.call("EXISTS", task_key(ctx, entry_id(entry))) == 1 then
      break
    end
    redis.call("ZREM", limited, entry)
  end
  return entry
end

-- Return the first entry for a limit in a queue: of a task with a group if one waits.
local function first_entry(ctx, limit, queue)
  return first_in(ctx, queue, "[" .. limit .. "\t", "(" .. limit .. "\n")
end

-- Return whether a task belongs to a paused group.
local function is_in_paused_group(ctx, id, queue)
  local share = redis.call("HGET", task_key(ctx, id), F.fair_share)
  if not share then
    return false
  end
  local _, group = groups().parse_share(share)
  return groups().is_group_paused(ctx, queue, group)
end

-- Move a waiting task to the requeued list, or to its group; it passes its limits again when it is fetched. `flush` notifies
-- the queue. The fetch that puts a task of a paused group into its group offers the place to the next one.
local function requeue_entry(ctx, queue, entry)
  local id = entry_id(entry)
  redis.call("ZREM", queue_key(ctx, queue, P.limited), entry)
  if is_in_paused_group(ctx, id, queue) then
    requeue(ctx, id, queue, P.requeued, "RPUSH")
  else
    requeue_behind(ctx, id, queue, P.requeued)
  end
  ctx.requeued_in = ctx.requeued_in or {}
  ctx.requeued_in[queue] = true
end

local function free_count(ctx, limit, max_running)
  return tonumber(newest_numbers(ctx, limit, max_running)) - redis.call("ZCARD", base_key(ctx, K.holders, limit))
end

-- @lazy limit_turns: serve_in_turn, hold_in_turn, next_in_turn, use_turn, join_turns, leave_turns, withdraw_offer
-- @lazy limit_turns: count_ahead

-- If the limit has room, requeue the first task that waits for it in a queue. Return whether a task waits.
local function serve_waiter_in(ctx, limit, max_running, queue)
  local entry = first_entry(ctx, limit, queue)
  local free = entry and free_count(ctx, limit, max_running)
  if entry and group_of(limit, entry) then
    limit_turns().serve_in_turn(ctx, limit, queue, free)
  elseif entry and free > 0 then
    requeue_entry(ctx, queue, entry)
  end
  return entry
end

-- The same in each queue, since some may be paused or have no worker now. A task that finds the limit full waits again,
-- at its old position.
local function serve_waiter(ctx, limit, max_running, queue)
  serve_waiter_in(ctx, limit, max_running, queue)
  local waiters = base_key(ctx, K.concurrency_waiters, limit)
  for _, other in ipairs(redis.call("ZRANGE", waiters, 0, 99)) do
    if other ~= queue and not serve_waiter_in(ctx, limit, max_running, other) then
      redis.call("ZREM", waiters, other)
    end
  end
end

-- Remove the oldest holder if that task does not run: its record was deleted. Return 1 then, else 0.
local function remove_lost_holder(ctx, limit)
  local holders = base_key(ctx, K.holders, limit)
  local oldest = redis.call("ZRANGE", holders, 0, 0)[1]
  if oldest and redis.call("HGET", task_key(ctx, oldest), F.state) ~= S.running then
    return redis.call("ZREM", holders, oldest)
  end
  return 0
end

-- Remove a task that does not run any more from the holders; `concurrency` is the record's field.
local function remove_holder(ctx, id, queue, concurrency)
  local limit, max_running = parse_limit(F.concurrency, concurrency)
  redis.call("ZREM", base_key(ctx, K.holders, limit), id)
  serve_waiter(ctx, limit, max_running, queue)
end

local function rate_of(ctx, limits)
  local numbers = newest_numbers(ctx, limits.rate, limits.rate_numbers)
  local interval_us, tolerance_us = string.match(numbers, "^(%d+)/(%d+)")
  return tonumber(interval_us), tonumber(tolerance_us)
end

local function store_next_start(ctx, limits, next_us)
  local ttl_ms = math.ceil((next_us - ctx.now_us) / 1000)
  redis.call("SET", base_key(ctx, K.rate, limits.rate), string.format("%.0f", next_us), "PX", ttl_ms)
end

-- Return when the next task may start, in microseconds; in the past if it may start now. Never later than an interval
-- from now: when a rate is raised, the old interval ends.
local function next_start_us(ctx, limits)
  local interval_us, tolerance_us = rate_of(ctx, limits)
  local next_us = tonumber(redis.call("GET", base_key(ctx, K.rate, limits.rate)) or 0)
  local latest_us = ctx.now_us + interval_us + tolerance_us
  if next_us > latest_us then
    store_next_start(ctx, limits, latest_us)
    next_us = latest_us
  end
  return next_us - tolerance_us
end

local function count_start(ctx, limits)
  local interval_us, tolerance_us = rate_of(ctx, limits)
  store_next_start(ctx, limits, math.max(next_start_us(ctx, limits) + tolerance_us, ctx.now_us) + interval_us)
end

-- Reserve a start for a task: schedule it for that moment.
local function reserve(ctx, queue, entry, start_us)
  local due_ms = start_us <= ctx.now_us and ctx.now_ms or math.ceil(start_us / 1000)
  redis.call("HSET", queue_key(ctx, queue, P.reserved), string.match(entry, "^[^\t]+"), entry)
  redis.call("HSET", task_key(ctx, entry_id(entry)), F.state, S.scheduled, F.due_at_ms, due_ms)
  redis.call("ZADD", queue_key(ctx, queue, P.scheduled), due_ms, entry_id(entry))
end

-- Reserve the next start for the first task that waits for the rate in the queue.
local function reserve_next(ctx, limits)
  local entry = first_entry(ctx, limits.rate, limits.queue)
  if entry and group_of(limits.rate, entry) then
    local group, number
    entry, group, number = limit_turns().next_in_turn(ctx, limits.rate, limits.queue)
    limit_turns().use_turn(ctx, limits.rate, limits.queue, entry, group, number)
  end
  if entry then
    redis.call("ZREM", queue_key(ctx, limits.queue, P.limited), entry)
    reserve(ctx, limits.queue, entry, next_start_us(ctx, limits))
  else
    redis.call("HDEL", queue_key(ctx, limits.queue, P.reserved), limits.rate)
  end
end

-- Return whether the rate's next start in this queue is reserved for this task.
local function has_reservation(ctx, limits)
  local entry = redis.call("HGET", queue_key(ctx, limits.queue, P.reserved), limits.rate)
  return entry and entry_id(entry) == limits.id
end

-- Return the entry of another task that has the rate's next start in this queue, if its record exists and its group, if it has
-- one, is not paused.
local function reserved_by_other(ctx, limits)
  local entry = redis.call("HGET", queue_key(ctx, limits.queue, P.reserved), limits.rate)
  if entry and entry_id(entry) ~= limits.id and redis.call("EXISTS", task_key(ctx, entry_id(entry))) == 1
    and not is_in_paused_group(ctx, entry_id(entry), limits.queue) then
    return entry
  end
end

-- Reserve the next start for the next task, and notify those who time it.
local function pass_reservation(ctx, limits)
  reserve_next(ctx, limits)
  notify_queue(ctx, limits.queue)
  notify(ctx, "poller")
end

-- Let the next waiting task have the place of one that does not start, since its group is paused.
local function pass_place(ctx, id, queue)
  local limits = limits_of(ctx, id, queue)
  if limits and limits.concurrency then
    serve_waiter_in(ctx, limits.concurrency, limits.max_running, queue)
  end
  if limits and limits.rate and has_reservation(ctx, limits) then
    pass_reservation(ctx, limits)
  end
end

-- Remove a cancelled, expired or rescheduled task, so that none waits behind it. Return how many entries it had.
local function leave(ctx, id, queue)
  local limits = limits_of(ctx, id, queue)
  if not limits then
    return 0
  end
  local limited, removed = queue_key(ctx, queue, P.limited), 0
  -- A version that did not know turns at limits has written an entry without the group.
  if limits.concurrency then
    local limit = limits.concurrency
    removed = redis.call("ZREM", limited, limits.concurrency_entry, limit .. limits.order)
    limit_turns().withdraw_offer(ctx, limit, queue, limits.concurrency_entry)
    if limits.group then
      limit_turns().leave_turns(ctx, limit, queue, limits.group)
    end
    serve_waiter(ctx, limit, limits.max_running, queue)
  end
  if limits.rate then
    removed = removed + redis.call("ZREM", limited, limits.rate_entry, limits.rate .. limits.order)
    if limits.group then
      limit_turns().leave_turns(ctx, limits.rate, queue, limits.group)
    end
    if has_reservation(ctx, limits) then
      pass_reservation(ctx, limits)
    end
  end
  return removed
end
