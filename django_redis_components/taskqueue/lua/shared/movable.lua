-- Tasks that another shard may take: what a script decides over several tasks (a unique key, a limit, a flow) is exact in
-- one shard only, so those that share it stay where they are.
-- @include pending

-- Return why a task must stay in its shard; nil if another one may take it.
local function reason_to_stay(ctx, id, queue)
  local flow_ref, claim, concurrency, rate, share = unpack(redis.call("HMGET", task_key(ctx, id),
    F.flow_ref, F.unique_claim, F.concurrency, F.rate, F.fair_share))
  if flow_ref then
    return "flow"
  elseif claim then
    return "unique"
  elseif concurrency or rate then
    return "limit"
  end
  local group = share and string.match(share, "^[^/]*/(.*)$")
  if group and redis.call("HEXISTS", queue_key(ctx, queue, P.paused_groups), group) == 1 then
    return "paused_group"
  end
end

-- Return when a task failed, in milliseconds; nil if it is not failed, or failed later than the time.
local function failed_ms(ctx, id, queue, until_us)
  local score = redis.call("ZSCORE", queue_key(ctx, queue, P.failed), id)
  local is_failed = score and redis.call("HGET", task_key(ctx, id), F.state) == S.failed
  return is_failed and tonumber(score) * 1000 <= tonumber(until_us) and score or nil
end
