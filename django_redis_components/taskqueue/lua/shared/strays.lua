-- Tasks of groups that a fetch finds in another list than that of the groups.
-- @lazy groups: enter_group, parse_share, is_group_paused

-- Put a task into its group, where it waits for a turn: a scheduled one that is due, or one that a process of a version without
-- groups has made ready.
local function enter_stray(ctx, id, queue)
  groups().enter_group(ctx, id, queue)
  ctx.grouped = (ctx.grouped or 0) + 1
end

-- Return whether a task of the requeued list does not start, since its group is paused. Then it enters the group.
local function holds_back(ctx, id, queue, share)
  local _, group = groups().parse_share(share)
  if not groups().is_group_paused(ctx, queue, group) then
    return false
  end
  enter_stray(ctx, id, queue)
  ctx.skipped = ctx.skipped + 1
  return true
end
