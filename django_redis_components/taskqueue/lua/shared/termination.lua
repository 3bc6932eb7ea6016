-- Finish tasks outside of a run: cancelled, expired or deleted ones.
-- Reads in ctx: finished_limit, finished_ttl_ms.
-- @include context
-- @include times
-- @include states
-- @lazy groups
-- @lazy results: notify_waiters
-- @lazy unique: release
-- @lazy flow: fail_followers
-- @include finished_unrun

local function finish(ctx, id, state, ttl_ms, reason)
  local record = task_key(ctx, id)
  redis.call("HSET", record, F.state, state, F.finished_at_us, ctx.now_us)
  redis.call("PEXPIRE", record, ttl_ms)
  list_unrun(ctx, id, state)
  local waiters, claim, flow_ref = unpack(redis.call("HMGET", record, F.waiters, F.unique_claim, F.flow_ref))
  if waiters then
    results().notify_waiters(ctx, id, waiters)
  end
  if claim then
    unique().release(ctx, id, claim, false)
  end
  if flow_ref then
    flow().fail_followers(ctx, id, flow_ref, reason)
  end
end

local function finish_cancelled(ctx, id, ttl_ms)
  finish(ctx, id, S.cancelled, ttl_ms, "was cancelled")
end

-- Finish a task whose expiry ("at_ms ttl_ms") passed before it started.
local function finish_expired(ctx, id, expiry)
  finish(ctx, id, S.expired, string.match(expiry, "%d+$"), "expired")
end

-- Delete a task: release its unique key, and fail the tasks of its flow that wait for it.
local function delete_task(ctx, id)
  local record = task_key(ctx, id)
  local flow_ref, state, claim = unpack(redis.call("HMGET", record, F.flow_ref, F.state, F.unique_claim))
  if flow_ref and not is_final(state) then
    flow().fail_followers(ctx, id, flow_ref, "was deleted")
  end
  if claim then
    unique().release(ctx, id, claim, false)
  end
  redis.call("DEL", record, record .. ":errors")
end
