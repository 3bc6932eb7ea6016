-- Cancelling a task.
-- @include group_placement
-- @include times
-- @lazy counters: count
-- @lazy groups: leave_group
-- @lazy limit_queue: leave
-- @include termination

-- Cancel a task. One in a zset leaves it at once, one in a list when it is fetched; a running one is asked to stop, unless
-- `force_ms` is nil. Returns as cancel.lua does.
local function cancel(ctx, id, ttl_ms, force_ms)
  local record = task_key(ctx, id)
  local queue, state, lease, enqueued_us, placed_us, cancel_request, name, share = unpack(redis.call("HMGET",
    record, F.queue, F.state, F.lease, F.enqueued_at_us, F.placed_at_us, F.cancel_request, F.task_name, F.fair_share))
  if not queue then
    return -1
  end
  if state == S.cancelled then
    return 1
  end
  if state == S.running then
    if not force_ms then
      return -2
    end
    -- The first word of a lease is the worker's id, "supervisor.process"; the wakeup is the supervisor's.
    local force_at_ms = math.min(ctx.now_ms + force_ms, tonumber(string.match(cancel_request or "", "^%d+") or math.huge))
    redis.call("HSET", record, F.cancel_request, string.format("%.0f %s", force_at_ms, ttl_ms))
    notify(ctx, "s:" .. string.gsub(string.match(lease, "^[^/]*"), "%.[^.]*$", ""))
    return 2
  end
  if is_final(state) then
    return 0
  end
  local removed = limit_queue().leave(ctx, id, queue) + (share and groups().leave_group(ctx, id, queue) or 0)
  for _, part in ipairs({ P.scheduled, P.priority, P.unregistered, P.waiting }) do
    removed = removed + redis.call("ZREM", queue_key(ctx, queue, part), id)
  end
  redis.call("ZREM", queue_key(ctx, queue, P.retrying), id)
  if removed == 0 and state ~= S.waiting and state ~= S.unregistered then
    -- It is in a list: in the queue's, or in the trash if it was placed before the latest purge.
    local purged_us = tonumber(redis.call("GET", queue_key(ctx, queue, P.purged_at_us)) or 0)
    if tonumber(placed_us or enqueued_us) > purged_us then
      redis.call("INCR", queue_key(ctx, queue, P.tombstones))
    end
  end
  finish_cancelled(ctx, id, ttl_ms)
  counters().count(ctx, queue, name, O.cancelled)
  return 1
end
