-- Accept tasks: write their records and put them into their queues.
-- Collects in ctx: accepted_us, the latest time of acceptance; ready, ids for the ready lists by queue.
-- @include placement
-- @include times
-- @include limit_key
-- @lazy unique: claim

-- Write the unique claim and the expiry. Return the id of the task that has the unique key, if another has it.
local function accept_claims(ctx, id, claim, expires, at_us, due_ms)
  if claim ~= "" then
    local manner_and_digest, ttl_ms = string.match(claim, "^(%S+) ?(%d*)$")
    local other = unique().claim(ctx, id, manner_and_digest, ttl_ms ~= "" and ttl_ms or nil)
    if other then
      return other
    end
    redis.call("HSET", task_key(ctx, id), F.unique_claim, manner_and_digest)
  end
  if expires ~= "" then
    redis.call("HSET", task_key(ctx, id), F.expiry, parse_expiry(expires, at_us, due_ms))
  end
end

-- Accept the task that args[first] to args[last] describe, as enqueue.lua takes it; nothing changes if it was accepted
-- before. Return the time of acceptance, or {id, record} of another task that has the unique key.
-- The order of tasks that wait for a limit follows from that time, so those of one call are a microsecond apart.
local function accept_task(ctx, args, first, last)
  local id, queue, due, priority, claim, expires = unpack(args, first, first + 5)
  local record = task_key(ctx, id)
  local accepted_before = redis.call("HGET", record, F.enqueued_at_us)
  if accepted_before then
    return tonumber(accepted_before)
  end
  local at_us = (ctx.accepted_us or ctx.now_us - 1) + 1
  local due_ms = due ~= "" and parse_due(due, at_us) or 0
  local other = (claim ~= "" or expires ~= "") and accept_claims(ctx, id, claim, expires, at_us, due_ms)
  if other then
    return { other, redis.call("HGETALL", task_key(ctx, other)) }
  end
  ctx.ready = ctx.ready or {}
  if not ctx.ready[queue] then
    index_queue(ctx, queue)
    ctx.ready[queue] = {}
  end
  ctx.accepted_us = at_us
  redis.call("HSET", record, F.queue, queue, F.enqueued_at_us, at_us, unpack(args, first + 6, last))
  store_limits(ctx, args, first + 6, last)
  if due_ms > math.floor(at_us / 1000) then
    redis.call("HSET", record, F.due_at_ms, due_ms)
    schedule(ctx, queue, id, due_ms)
  elseif tonumber(priority) ~= 0 then
    push_priority(ctx, queue, id, priority)
    notify_queue(ctx, queue)
  else
    table.insert(ctx.ready[queue], id)
  end
  return at_us
end

-- Push the accepted tasks onto the ready lists, in order of acceptance; at most 1,000 in a call.
local function push_accepted(ctx)
  for queue, ids in pairs(ctx.ready or {}) do
    if #ids > 0 then
      redis.call("RPUSH", queue_key(ctx, queue, P.ready), unpack(ids))
      notify_queue(ctx, queue)
    end
  end
end
