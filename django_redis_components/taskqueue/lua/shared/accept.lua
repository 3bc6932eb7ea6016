-- Accept tasks: write their records and put them into their queues.
-- @include placement
-- @include times
-- @lazy groups: enter_group
-- @lazy task_options: store_claim_and_expiry, store_limits, read_holder

-- Accept the task that args[first] to args[last] describe, as enqueue.lua takes it; nothing changes if it was accepted
-- before. Return the time of acceptance, at_us for a new task, or {id, record} of another task that has the unique key,
-- changed as the claim says; then the queue, if the caller is to push the task onto its ready list.
-- The order of tasks that wait for a limit follows from at_us, so those of one call are a microsecond apart.
local function accept_task(ctx, at_us, args, first, last)
  local id, queue, due, priority, claim, expires = unpack(args, first, first + 5)
  local record = task_key(ctx, id)
  local accepted_before = redis.call("HGET", record, F.enqueued_at_us)
  if accepted_before then
    return tonumber(accepted_before)
  end
  local due_ms = due ~= "" and parse_due(due, at_us) or 0
  if claim ~= "" or expires ~= "" then
    local other = task_options().store_claim_and_expiry(ctx, at_us, due_ms, args, first, last)
    if other then
      return { other, task_options().read_holder(ctx, other) }
    end
  end
  redis.call("HSET", record, F.queue, queue, F.enqueued_at_us, at_us, unpack(args, first + 6, last))
  local has_limits, has_group = false, false
  for index = first + 6, last, 2 do
    has_limits = has_limits or args[index] == F.concurrency or args[index] == F.rate
    has_group = has_group or args[index] == F.fair_share
  end
  if has_limits then
    task_options().store_limits(ctx, args, first + 6, last)
  end
  if due_ms > math.floor(at_us / 1000) then
    index_queue(ctx, queue)
    redis.call("HSET", record, F.due_at_ms, due_ms)
    schedule(ctx, queue, id, due_ms)
  elseif has_group then
    index_queue(ctx, queue)
    local _, is_filling = groups().enter_group(ctx, id, queue)
    if not is_filling then
      notify_queue(ctx, queue)
    end
  elseif priority ~= "0" then
    index_queue(ctx, queue)
    push_priority(ctx, queue, id, priority)
    notify_queue(ctx, queue)
  else
    return at_us, queue
  end
  return at_us
end
