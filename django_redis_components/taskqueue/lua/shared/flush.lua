-- @include wakeups
-- @lazy counters: write_counters

-- Write the counters that the call has collected, and notify the queues in which it has reserved a start for a task that
-- waited for a limit, if that task is still there.
local function flush(ctx)
  if ctx.counters then
    counters().write_counters(ctx)
  end
  if ctx.requeued_in then
    for queue in pairs(ctx.requeued_in) do
      if redis.call("EXISTS", queue_key(ctx, queue, P.requeued), queue_key(ctx, queue, P.turns)) > 0 then
        notify_queue(ctx, queue)
      end
    end
  end
end
