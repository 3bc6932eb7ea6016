-- Decide whether a popped task starts now. Collects in ctx: used_limits; limited_id, the latest task that waits for a limit.
-- @include context
-- @include times
-- @lazy limit_queue: leave
-- @lazy limit_acquire: acquire
-- @lazy counters: count
-- @lazy unique: release
-- @lazy termination: finish_expired

local function remove_tombstone(ctx, queue)
  local tombstones = queue_key(ctx, queue, P.tombstones)
  if redis.call("EXISTS", tombstones) == 1 and redis.call("DECR", tombstones) <= 0 then
    redis.call("DEL", tombstones)
  end
end

-- Return whether the task starts: not if it was cancelled or deleted, has expired, or waits for a limit.
local function admit(ctx, id, queue, name, body, state, expiry, claim, is_limited)
  if not body or state == S.cancelled then
    if not body then
      redis.call("DEL", task_key(ctx, id)) -- fields that were written after the record had been deleted
    end
    remove_tombstone(ctx, queue)
    return false
  end
  ctx.used_limits = ctx.used_limits or is_limited
  if expiry and has_expired(ctx, expiry, redis.call("HGET", task_key(ctx, id), F.worker_ids)) then
    if is_limited then
      limit_queue().leave(ctx, id, queue)
    end
    counters().count(ctx, queue, name, O.expired)
    termination().finish_expired(ctx, id, expiry)
    return false
  end
  if is_limited and not limit_acquire().acquire(ctx, id, queue) then
    ctx.limited_id = id
    return false
  end
  if claim and string.sub(claim, 1, 1) == "s" then
    unique().release(ctx, id, claim, true)
  end
  return true
end
