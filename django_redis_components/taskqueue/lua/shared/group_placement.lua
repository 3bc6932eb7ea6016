-- Making tasks ready that may have a group.
-- @include placement
-- @lazy groups: enter_group

-- Put a task into its group, as ready. Return false if it has none. `ready_us`: see `enter_group`.
local function place_in_group(ctx, id, queue, ready_us)
  if redis.call("HEXISTS", task_key(ctx, id), F.fair_share) == 0 then
    return false
  end
  redis.call("HSET", task_key(ctx, id), F.state, S.ready, F.placed_at_us, ctx.now_us)
  return (groups().enter_group(ctx, id, queue, ready_us))
end

-- Put a task behind those of its group, or of a list. One whose workers have died stays in the requeued list: from there it is
-- leased alone.
local function requeue_behind(ctx, id, queue, part, ready_us)
  local is_suspect = part == P.requeued and redis.call("HEXISTS", task_key(ctx, id), F.deliveries) == 1
  if is_suspect or not place_in_group(ctx, id, queue, ready_us) then
    requeue(ctx, id, queue, part, "RPUSH")
  end
end
