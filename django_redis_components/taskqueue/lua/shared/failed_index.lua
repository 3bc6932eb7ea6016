-- The index of failed tasks of a queue, and the tasks that it has no place for.
-- @include context
-- @lazy unique: expire_with_key
-- @lazy flow: flow_steps

-- Tasks that one failure deletes at most, of those that the index has no place for: one, or more after the limit was
-- lowered.
local MAX_DROPPED = 10

-- Delete a failed task that has left the index: nothing else would find it before its TTL. Its record stays for a moment
-- if clients wait for the result, and as long as it holds a unique key for a time.
local function delete_failed(ctx, id)
  local record = task_key(ctx, id)
  local state, waiters, claim, flow_ref = unpack(redis.call("HMGET", record,
    F.state, F.waiters, F.unique_claim, F.flow_ref))
  if state ~= S.failed then
    return
  end
  if waiters then
    redis.call("PEXPIRE", record, T.wakeup_ms, "LT")
    redis.call("PEXPIRE", record .. ":errors", T.wakeup_ms, "LT")
  elseif claim and unique().expire_with_key(ctx, id, claim) then
    redis.call("UNLINK", record .. ":errors")
  else
    redis.call("UNLINK", record, record .. ":errors")
  end
  if flow_ref then
    flow().flow_steps().delete_failed_followers(ctx, flow_ref)
  end
end

-- Delete the oldest failed tasks beyond the limit of a queue, at most `steps`.
local function trim_failed(ctx, queue, limit, steps)
  local failed = queue_key(ctx, queue, P.failed)
  local excess = redis.call("ZCARD", failed) - limit
  local dropped = excess > 0 and redis.call("ZPOPMIN", failed, math.min(excess, steps)) or {}
  for index = 1, #dropped, 2 do
    delete_failed(ctx, dropped[index])
  end
end

-- Add a task to the index of failed tasks, which keeps the latest `limit`. The others are deleted.
local function keep_failed(ctx, id, queue, ttl_ms, limit)
  local failed = queue_key(ctx, queue, P.failed)
  trim_failed(ctx, queue, limit - 1, MAX_DROPPED)
  redis.call("ZADD", failed, ctx.now_us / 1000, id)
  redis.call("PEXPIRE", failed, ttl_ms)
  redis.call("PEXPIRE", task_key(ctx, id), ttl_ms)
end
