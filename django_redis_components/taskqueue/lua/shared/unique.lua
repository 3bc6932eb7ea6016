-- Unique keys. A claim is the manner and the digest of the key: "f<digest>" holds the key until the task has finished,
-- "s<digest>" until it has started, "t<digest>" for a time. The key stores the task's id.
-- @include context
-- @include times
-- @lazy groups: rank_in_group

local function unique_key(ctx, unique_claim)
  return base_key(ctx, K.unique, string.sub(unique_claim, 2))
end

-- Return whether a purge has removed a pending task: it is in no list or zset of its queue.
local function was_purged(ctx, id, queue, state, placed_us)
  if state == S.unregistered or state == S.waiting then
    return false
  end
  local purged_us = tonumber(redis.call("GET", queue_key(ctx, queue, P.purged_at_us)) or 0)
  return tonumber(placed_us) <= purged_us
    and not redis.call("ZSCORE", queue_key(ctx, queue, P.priority), id)
    and not redis.call("ZSCORE", queue_key(ctx, queue, P.scheduled), id)
    and not groups().rank_in_group(ctx, id, queue)
end

-- Return the key of the record of the task that has a unique key: one that is being moved to another shard keeps both.
local function holder_record(ctx, id)
  local record = task_key(ctx, id)
  local is_moving = redis.call("HEXISTS", record, F.queue) == 0 and redis.call("HEXISTS", record, F.moving) == 1
  return is_moving and base_key(ctx, K.moving_task, id) or record, is_moving
end

-- Return whether the task that has the key prevents a claim of this manner.
local function blocks(ctx, id, manner)
  local record, is_moving = holder_record(ctx, id)
  local queue, state, enqueued_us, placed_us, expiry, worker_ids = unpack(redis.call("HMGET", record,
    F.queue, F.state, F.enqueued_at_us, F.placed_at_us, F.expiry, F.worker_ids))
  if not queue or state == S.cancelled or state == S.expired then
    return false
  end
  if state == S.successful or state == S.failed then
    return manner == "t"
  end
  if state == S.running then
    return manner ~= "s"
  end
  return not has_expired(ctx, expiry, worker_ids)
    and (is_moving or not was_purged(ctx, id, queue, state, placed_us or enqueued_us))
end

-- Return the id of another task that has the key and prevents the claim, if there is one.
local function other_holder(ctx, id, unique_claim)
  local other = redis.call("GET", unique_key(ctx, unique_claim))
  return other and other ~= id and blocks(ctx, other, string.sub(unique_claim, 1, 1)) and other or nil
end

-- Acquire the key. Return the id of the task that has it, if another does.
local function acquire_key(ctx, id, unique_claim, ttl_ms)
  local other = other_holder(ctx, id, unique_claim)
  if not other then
    redis.call("SET", unique_key(ctx, unique_claim), id, unpack(ttl_ms and { "PX", ttl_ms } or {}))
  end
  return other
end

-- Acquire the key again for a task that returns to its queue. A key that was held for a time has expired with it.
local function reacquire_key(ctx, id, unique_claim)
  return string.sub(unique_claim, 1, 1) ~= "t" and acquire_key(ctx, id, unique_claim) or nil
end

-- Let the record of a task that holds its key for a time expire with the key. Return whether it does.
local function expire_with_key(ctx, id, unique_claim)
  local key = unique_key(ctx, unique_claim)
  if string.sub(unique_claim, 1, 1) ~= "t" or redis.call("GET", key) ~= id then
    return false
  end
  redis.call("PEXPIRE", task_key(ctx, id), redis.call("PTTL", key), "LT")
  return true
end

-- Release the key of a finished task. A key that is held for a time stays after a run, and so does the record.
local function release(ctx, id, unique_claim, has_run)
  local key = unique_key(ctx, unique_claim)
  if redis.call("GET", key) ~= id then
    return
  end
  if not (has_run and string.sub(unique_claim, 1, 1) == "t") then
    redis.call("DEL", key)
    return
  end
  local left_ms = redis.call("PTTL", key)
  for _, kept in ipairs({ task_key(ctx, id), task_key(ctx, id) .. ":errors" }) do
    redis.call("PEXPIRE", kept, left_ms, "GT")
  end
end
