-- Putting tasks that `take_pending` has taken into a queue: each keeps its state and its due time, and comes after those
-- that were there. Unregistered tasks become ready.
-- @include group_placement

local function place_scheduled(ctx, task, queue)
  local due_ms = math.ceil(task.score) -- the record may have a later time, where a limit has a start earlier
  schedule(ctx, queue, task.id, due_ms)
  if task.state == S.retrying then
    redis.call("ZADD", queue_key(ctx, queue, P.retrying), due_ms, task.id)
  end
end

local function place_ready(ctx, task, queue)
  if task.part == P.requeued or task.part == P.unregistered then
    requeue_behind(ctx, task.id, queue, P.requeued)
  elseif not task.priority then
    requeue_behind(ctx, task.id, queue, P.ready)
  elseif not place_in_group(ctx, task.id, queue) then
    redis.call("HSET", task_key(ctx, task.id), F.state, S.ready)
    push_priority(ctx, queue, task.id, task.priority)
  end
  -- It has waited for a rate, and may start there at another time.
  if (task.due_ms or 0) > ctx.now_ms then
    redis.call("HDEL", task_key(ctx, task.id), F.due_at_ms)
  end
end

local function place_pending(ctx, task, queue)
  redis.call("HSET", task_key(ctx, task.id), F.queue, queue, F.placed_at_us, ctx.now_us)
  if task.part == P.waiting then
    redis.call("ZADD", queue_key(ctx, queue, P.waiting), task.score, task.id)
  elseif task.part == P.scheduled then
    place_scheduled(ctx, task, queue)
  else
    place_ready(ctx, task, queue)
  end
end
