-- The tasks of a flow: their places in its hash, and the start of those that waited.
-- @include group_placement
-- @include times

-- Return the flow's key and the task's number, from "flow/number".
local function parse_ref(ctx, flow_ref)
  local flow_id, number = string.match(flow_ref, "^(.+)/(%d+)$")
  return base_key(ctx, K.flow, flow_id), number
end

-- Return the id of a task of the flow, and the numbers of its followers.
local function node(key, number)
  return string.match(redis.call("HGET", key, number) or "", "^(%S+) ?(.*)$")
end

local function is_in_state(ctx, id, state)
  return redis.call("HGET", task_key(ctx, id), F.state) == state
end

-- Return whether a number is that of a callback: those of added tasks come behind them.
local function is_callback(number, tasks)
  return tasks and tonumber(number) >= tonumber(tasks) and tonumber(number) <= tasks + 2
end

-- List a task as waiting, by the time of acceptance and in the order of the flow.
local function hold(ctx, number, id)
  local queue, enqueued_us = unpack(redis.call("HMGET", task_key(ctx, id), F.queue, F.enqueued_at_us))
  index_queue(ctx, queue)
  redis.call("ZADD", queue_key(ctx, queue, P.waiting), enqueued_us + number, id)
end

-- Put a task that has waited for others into its queue.
local function start(ctx, key, number, id)
  local record = task_key(ctx, id)
  local queue, priority = unpack(redis.call("HMGET", record, F.queue, F.priority))
  redis.call("ZREM", queue_key(ctx, queue, P.waiting), id)
  local due, expires = unpack(redis.call("HMGET", key, FLOW.due .. number, FLOW.expires .. number))
  local due_ms = due and parse_due(due, ctx.now_us) or 0
  if expires then
    redis.call("HSET", record, F.expiry, parse_expiry(expires, ctx.now_us, due_ms))
  end
  index_queue(ctx, queue)
  if due_ms > ctx.now_ms then
    redis.call("HSET", record, F.state, S.scheduled, F.due_at_ms, due_ms)
    schedule(ctx, queue, id, due_ms)
    return
  end
  redis.call("HSET", record, F.state, S.ready, F.placed_at_us, ctx.now_us)
  if not priority then
    requeue_behind(ctx, id, queue, P.ready, ctx.now_us)
  elseif not place_in_group(ctx, id, queue, ctx.now_us) then
    push_priority(ctx, queue, id, priority)
  end
  notify_queue(ctx, queue)
end
