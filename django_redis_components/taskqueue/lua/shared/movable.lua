-- Tasks that another shard may take: what a script decides over several tasks (a unique key, a limit, a flow) is exact in
-- one shard only. So members of flows stay where they are, and the others move only where new tasks with their keys go.
-- @include limit_key
-- @include pending

-- Return whether a task with this limit runs here: beside those that the other shard would start, there could be too many.
local function is_held(ctx, concurrency)
  local limit = parse_limit(F.concurrency, concurrency)
  for _, id in ipairs(redis.call("ZRANGE", base_key(ctx, K.holders, limit), 0, 99)) do
    if redis.call("HGET", task_key(ctx, id), F.state) == S.running then -- else its record was deleted
      return true
    end
  end
  return false
end

-- Return why a task must stay in its shard; nil if another one may take it. `is_target` is "1" if new tasks with the same
-- unique keys and limits go there.
local function reason_to_stay(ctx, id, queue, is_target)
  local flow_ref, claim, concurrency, rate, share = unpack(redis.call("HMGET", task_key(ctx, id),
    F.flow_ref, F.unique_claim, F.concurrency, F.rate, F.fair_share))
  if flow_ref then
    return "flow"
  elseif claim and is_target ~= "1" then
    return "unique"
  elseif (concurrency or rate) and is_target ~= "1" then
    return "limit"
  elseif concurrency and is_held(ctx, concurrency) then
    return "held"
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
