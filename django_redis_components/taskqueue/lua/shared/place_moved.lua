-- Putting a task whose record another shard had, or that was set aside, into its queue, with its state and its due time.
-- @include place_pending

local function place_moved(ctx, id, queue, part, score, failed_ttl_ms)
  local record = task_key(ctx, id)
  if part == P.failed then
    redis.call("ZADD", queue_key(ctx, queue, P.failed), score, id)
    redis.call("PEXPIRE", queue_key(ctx, queue, P.failed), failed_ttl_ms)
  elseif part == P.unregistered then
    redis.call("HSET", record, F.placed_at_us, ctx.now_us)
    redis.call("ZADD", queue_key(ctx, queue, P.unregistered), score, id)
  else
    local state, priority = unpack(redis.call("HMGET", record, F.state, F.priority))
    place_pending(ctx, { id = id, part = part, score = score ~= "-" and score, state = state, priority = priority }, queue)
  end
  index_queue(ctx, queue)
  notify_queue(ctx, queue)
end
