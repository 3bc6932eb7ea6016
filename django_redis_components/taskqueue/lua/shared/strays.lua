-- Tasks of groups that a fetch finds in another list than that of the groups.
-- @include context
-- @lazy groups: enter_group, parse_share, is_group_paused
-- @lazy limit_queue: pass_place

-- Put a task into its group, where it waits for a turn: a scheduled one that is due, or one that a process of a version without
-- groups has made ready. If the group is paused, the next task that waits for the same limit gets its place there.
local function enter_stray(ctx, id, queue, share)
  local _, group = groups().parse_share(share)
  groups().enter_group(ctx, id, queue)
  ctx.grouped = (ctx.grouped or 0) + 1
  if groups().is_group_paused(ctx, queue, group) then
    limit_queue().pass_place(ctx, id, queue)
  end
  ctx.skipped = ctx.skipped + 1
end

-- Return whether a task of the requeued list does not start, since its group is paused, or since it starts with others of its
-- batch. Then it enters the group.
local function holds_back(ctx, id, queue, share)
  local _, group = groups().parse_share(share)
  local state, batch, deliveries = unpack(redis.call("HMGET", task_key(ctx, id), F.state, F.batch, F.deliveries))
  local is_in_batch = batch and not deliveries
  if state == S.cancelled or not (is_in_batch or groups().is_group_paused(ctx, queue, group)) then
    return false
  end
  enter_stray(ctx, id, queue, share)
  return true
end
