-- Upkeep of queues: what the poller deletes, and adds up.
-- @include context
-- @include counter_sets
-- @include class_hours
-- @lazy lost_flows: check_flow, check_unfinished
-- @lazy flow: delete_partial_flows
-- @lazy limit_queue: limits_of, entry_id, remove_lost_holder, serve_waiter, reserved_by_other, pass_reservation

-- Delete a queue from the index when it was found empty for a day; its next task enters it again. Return whether it was
-- deleted.
local function forget_empty_queue(ctx, queue)
  local idle, keys = base_key(ctx, K.idle_queues), {}
  local parts = {
    P.requeued, P.ready, P.priority, P.scheduled, P.limited, P.running, P.failed, P.unregistered, P.waiting,
    P.successful, P.cancelled, P.expired, P.grouped, P.paused_groups,
  }
  for index, part in ipairs(parts) do
    keys[index] = queue_key(ctx, queue, part)
  end
  if redis.call("EXISTS", unpack(keys)) > 0 or redis.call("HEXISTS", base_key(ctx, K.paused), queue) == 1 then
    redis.call("ZREM", idle, queue)
    return false
  end
  redis.call("ZADD", idle, "NX", ctx.now_ms, queue)
  if tonumber(redis.call("ZSCORE", idle, queue)) > ctx.now_ms - T.idle_queue_ms then
    return false
  end
  redis.call("ZREM", idle, queue)
  redis.call("ZREM", base_key(ctx, K.queues), queue)
  redis.call("DEL", queue_key(ctx, queue, P.reserved), queue_key(ctx, queue, P.retrying), queue_key(ctx, queue, P.turns))
  return true
end

-- Return members of an index: some at random, and the oldest.
local function sample(index, samples)
  local ids = redis.call("ZRANDMEMBER", index, samples)
  for _, id in ipairs(redis.call("ZRANGE", index, 0, samples - 1)) do
    ids[#ids + 1] = id
  end
  return ids
end

-- Remove waiting tasks of flows whose records were deleted or evicted, and fail those that wait for such a task. Each round
-- samples a few, and looks at the oldest: tasks that would wait for ever become the oldest ones.
local function prune_waiting(ctx, queue, samples, ttl_ms)
  local waiting = queue_key(ctx, queue, P.waiting)
  if redis.call("EXISTS", waiting) == 0 then
    return
  end
  for _, id in ipairs(sample(waiting, samples)) do
    local state, flow_ref = unpack(redis.call("HMGET", task_key(ctx, id), F.state, F.flow_ref))
    if not state then
      redis.call("ZREM", waiting, id)
    elseif state == S.waiting and flow_ref then
      lost_flows().check_flow(ctx, id, flow_ref, ttl_ms)
    end
  end
end

-- Tasks that wait behind one whose record was deleted or evicted would wait until another task reaches the limit: sample
-- some of those that wait, and serve the first of their limit.
local function serve_limited(ctx, queue, samples)
  local limited, limiter = queue_key(ctx, queue, P.limited), limit_queue()
  for _, entry in ipairs(redis.call("ZRANDMEMBER", limited, samples)) do
    local limits = limiter.limits_of(ctx, limiter.entry_id(entry), queue)
    if not limits then
      redis.call("ZREM", limited, entry)
    elseif redis.call("ZSCORE", limited, entry) then -- else an earlier one of this loop has moved it
      if string.sub(entry, 1, 2) == "c:" then
        limiter.remove_lost_holder(ctx, limits.concurrency)
        limiter.serve_waiter(ctx, limits.concurrency, limits.max_running, queue)
      elseif not limiter.reserved_by_other(ctx, limits) then
        limiter.pass_reservation(ctx, limits)
      end
    end
  end
end

-- Finish flows whose unfinished tasks are lost: each round samples a few, and looks at the oldest.
local function prune_flows(ctx, samples)
  flow().delete_partial_flows(ctx)
  local flows = base_key(ctx, K.unfinished_flows)
  if redis.call("EXISTS", flows) == 0 then
    return
  end
  for _, id in ipairs(sample(flows, samples)) do
    lost_flows().check_unfinished(ctx, id)
  end
end

local function prune_index(ctx, queue, part, keep_ms)
  redis.call("ZREMRANGEBYSCORE", queue_key(ctx, queue, part), "-inf", ctx.now_ms - keep_ms)
end

local function is_old_row(ctx, row)
  return row and (tonumber(string.match(row, "^[^\t]*\t(%d+)")) or 0) < ctx.now_us - ctx.finished_ttl_ms * 1000
end

-- Delete rows that are too old, some in a call, and those beyond a limit that was lowered. Renew the TTL of the others.
local function prune_rows(ctx, queue, state)
  local list = queue_key(ctx, queue, state)
  if ctx.finished_limit == 0 then
    redis.call("UNLINK", list)
    return
  end
  redis.call("LTRIM", list, -ctx.finished_limit, -1)
  redis.call("PEXPIRE", list, ctx.finished_ttl_ms)
  local expired = 0
  while expired < 200 and is_old_row(ctx, redis.call("LINDEX", list, expired)) do
    expired = expired + 1
  end
  if expired > 0 then
    redis.call("LPOP", list, expired)
  end
end

local function prune_finished(ctx, queue)
  for _, state in ipairs({ S.successful, S.cancelled, S.expired }) do
    prune_rows(ctx, queue, state)
  end
end

-- Delete workers from a zset by heartbeat.
local function prune_workers(ctx, workers)
  redis.call("ZREMRANGEBYSCORE", workers, "-inf", ctx.now_ms - T.worker_ms)
  redis.call("ZREMRANGEBYSCORE", workers, ctx.now_ms + 60000, "+inf") -- seen before the clock was set back
end

-- Queues whose minutes one HSET writes, and those of a site above which no page reads what is packed: the same as in
-- stats/packed_minutes.py.
local PACKED_AT_ONCE, MOST_PACKED = 400, 5000

-- Add one minute's counters of a queue to its hour, to its total, to the sum of all queues, and to what `pack` takes.
local function add_minute(ctx, queue, minute, sum, packed)
  local counters, numbers = read_counters(queue_key(ctx, queue, P.minute .. ":" .. minute)), new_sum()
  add_counters(numbers, counters)
  local add = additions(numbers)
  if add then
    add_to(queue_key(ctx, queue, P.hour .. ":" .. math.floor(minute / 60)), "SAT", add, T.hour_ms)
    add_to(queue_key(ctx, queue, P.total), "WRAP", add, T.hour_ms)
    add_counters(sum, counters)
    packed[#packed + 1], packed[#packed + 2] = queue .. ":" .. minute % 10, counters
  end
end

-- Store a minute of queues in one hash, from which many of them are read at once.
local function pack(ctx, minute, packed)
  local key = base_key(ctx, K.packed_minutes, math.floor(minute / 10))
  for start = 1, #packed, 2 * PACKED_AT_ONCE do
    redis.call("HSET", key, unpack(packed, start, math.min(#packed, start + 2 * PACKED_AT_ONCE - 1)))
    redis.call("PEXPIRE", key, T.packed_minutes_ms - (ctx.now_ms - minute * 60000))
  end
end

-- Note which minutes of a chunk are packed. A gap, of a poller of an earlier version, starts them anew.
local function note_packed(ctx, chunk, before, rolled)
  if rolled > before then
    local key = base_key(ctx, K.packed)
    local first, last = string.match(redis.call("HGET", key, chunk) or "", "^(%d+) (%d+)$")
    first = tonumber(last) == before and first or before + 1
    redis.call("HSET", key, chunk, first .. " " .. rolled)
    redis.call("PEXPIRE", key, T.rollup_ms)
  end
end

-- Add a minute of all queues to the history: to its bucket of each length. A bucket that is too old for its range gets a
-- TTL below 0, and is deleted at once.
local function add_to_history(ctx, minute, sum)
  local add, age_ms = additions(sum), ctx.now_ms - minute * 60000
  local lifetimes = {
    [1] = T.history_1_ms, [10] = T.history_10_ms, [60] = T.history_60_ms, [1440] = T.history_1440_ms,
  }
  for minutes, ttl_ms in pairs(add and lifetimes or {}) do
    add_to(base_key(ctx, K.history, minutes .. ":" .. math.floor(minute / minutes)), "SAT", add, ttl_ms - age_ms)
  end
end

-- Add the minutes that have ended to the hours of these queues, the chunk that starts at rank `first`, and to the history:
-- each minute once, a few in one call. The mark is written by the same call: neither another poller nor a repeated call
-- adds a minute again.
local function roll_up(ctx, queues, first)
  local chunk = math.ceil(first / 500)
  local mark = base_key(ctx, K.rollup, chunk > 0 and chunk or nil)
  local latest = math.floor(ctx.now_ms / 60000)
  local rolled = tonumber(redis.call("GET", mark) or latest - 2)
  rolled = math.max(math.min(rolled, latest - 1), latest - 170)
  local before, is_packed = rolled, redis.call("ZCARD", base_key(ctx, K.queues)) <= MOST_PACKED
  for minute = rolled + 1, math.min(latest - 1, rolled + 5) do
    local sum, packed = new_sum(), {}
    for _, queue in ipairs(queues) do
      add_minute(ctx, queue, minute, sum, packed)
    end
    add_to_history(ctx, minute, sum)
    if is_packed then
      pack(ctx, minute, packed)
    end
    rolled = minute
  end
  if is_packed then
    note_packed(ctx, chunk, before, rolled)
  end
  redis.call("SET", mark, rolled, "PX", T.rollup_ms)
end
