-- Upkeep of queues: what the poller deletes, and adds up.
-- @include context

-- Delete a queue from the index when it was found empty for a day; its next task enters it again. Return whether it was
-- deleted.
local function forget_empty_queue(ctx, queue)
  local idle, keys = base_key(ctx, K.idle_queues), {}
  local parts = {
    P.requeued, P.ready, P.priority, P.scheduled, P.limited, P.running, P.failed, P.unregistered, P.waiting,
  }
  for at, part in ipairs(parts) do
    keys[at] = queue_key(ctx, queue, part)
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
  redis.call("DEL", queue_key(ctx, queue, P.reserved), queue_key(ctx, queue, P.retrying))
  return true
end

-- Remove waiting tasks of flows whose records were deleted or evicted: each round samples a few.
local function prune_waiting(ctx, queue, samples)
  local waiting = queue_key(ctx, queue, P.waiting)
  for _, id in ipairs(redis.call("ZRANDMEMBER", waiting, samples)) do
    if redis.call("EXISTS", task_key(ctx, id)) == 0 then
      redis.call("ZREM", waiting, id)
    end
  end
end

local function prune_index(ctx, queue, part, keep_ms)
  redis.call("ZREMRANGEBYSCORE", queue_key(ctx, queue, part), "-inf", ctx.now_ms - keep_ms)
end

local function prune_workers(ctx)
  local workers = base_key(ctx, K.workers)
  redis.call("ZREMRANGEBYSCORE", workers, "-inf", ctx.now_ms - T.worker_ms)
  redis.call("ZREMRANGEBYSCORE", workers, ctx.now_ms + 60000, "+inf") -- seen before the clock was set back
end

-- Add one minute's counters of a queue to its hour and its total.
local function add_minute(ctx, queue, minute)
  local counters = redis.call("GETRANGE", queue_key(ctx, queue, P.minute .. ":" .. minute), 0, 415)
  local hour = queue_key(ctx, queue, P.hour .. ":" .. math.floor(minute / 60))
  local add, size = { "BITFIELD", hour, "OVERFLOW", "SAT" }, 4
  for at = 0, math.floor(#counters / 4) - 1 do
    local count = struct.unpack(">I4", counters, at * 4 + 1)
    if count > 0 then
      add[size + 1], add[size + 2], add[size + 3], add[size + 4] = "INCRBY", "u32", "#" .. at, count
      size = size + 4
    end
  end
  if size > 4 then
    redis.call(unpack(add))
    redis.call("PEXPIRE", hour, T.hour_ms)
    local total = queue_key(ctx, queue, P.total)
    add[2], add[4] = total, "WRAP"
    redis.call(unpack(add))
    redis.call("PEXPIRE", total, T.hour_ms)
  end
end

-- Add the minutes that have ended to the hours of these queues, the chunk that starts at rank `first`: each minute once,
-- a few in one call.
local function roll_up(ctx, queues, first)
  local mark = base_key(ctx, K.rollup, first > 0 and math.ceil(first / 500) or nil)
  local latest = math.floor(ctx.now_ms / 60000)
  local rolled = tonumber(redis.call("GET", mark) or latest - 2)
  rolled = math.max(math.min(rolled, latest - 1), latest - 170)
  for minute = rolled + 1, math.min(latest - 1, rolled + 5) do
    for _, queue in ipairs(queues) do
      add_minute(ctx, queue, minute)
    end
    rolled = minute
  end
  redis.call("SET", mark, rolled, "PX", T.rollup_ms)
end
