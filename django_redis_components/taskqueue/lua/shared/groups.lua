-- Groups of the option `fair`. The ready tasks of all groups of a queue are in one zset, in which those of one group are adjacent.
-- An entry is "group\tpriority\tenqueued_at_us\tid". A second zset has the groups in the order of their turns: a group enters it
-- behind all others, and goes behind them again after its turn. Groups without ready tasks, and paused ones, leave it when
-- their turn comes.
-- @include context

-- Return the end of the entry of a task that waits for a turn or for a limit, "\tpriority\tenqueued_at_us\tid" (tasks of one flow
-- by their order in it). It follows from the record, and stays the same while the task is pending.
local function entry_order(id, priority, enqueued_us, flow_ref)
  local number = flow_ref and string.format("\t%05d", string.match(flow_ref, "%d+$")) or ""
  return string.format("\t%03d\t%s%s\t%s", 100 - tonumber(priority or 0), enqueued_us, number, id)
end

local function task_of(entry)
  return string.match(entry, "[^\t]+$")
end

-- What has the turns of the tasks without a group. No group has this name.
local WITHOUT_GROUP = "\t"

-- Return the weight and the group, from "weight/group".
local function parse_share(share)
  local weight, group = string.match(share, "^(%d+)/(.*)$")
  return tonumber(weight), group
end

local function is_group_paused(ctx, queue, group)
  return redis.call("HEXISTS", queue_key(ctx, queue, P.paused_groups), group) == 1
end

-- Put a group behind all others. Turns have no number in common.
local function take_last_turn(ctx, queue, group)
  redis.call("ZADD", queue_key(ctx, queue, P.turns), redis.call("INCR", base_key(ctx, K.sequence)), group)
end

-- Return since when the first task of a group has been ready, in microseconds: since it was accepted or due. Nil without one.
local function first_since_us(ctx, queue, group)
  local entry = redis.call("ZRANGEBYLEX", queue_key(ctx, queue, P.grouped), "[" .. group .. "\t", "(" .. group .. "\n",
    "LIMIT", 0, 1)[1]
  if not entry then
    return nil
  end
  local enqueued_us, due_ms = unpack(redis.call("HMGET", task_key(ctx, task_of(entry)), F.enqueued_at_us, F.due_at_ms))
  return math.max(tonumber(enqueued_us) or ctx.now_us, (tonumber(due_ms) or 0) * 1000)
end

-- Let a group have turns, unless it has.
local function enter_turns(ctx, queue, group)
  if not redis.call("ZSCORE", queue_key(ctx, queue, P.turns), group) then
    take_last_turn(ctx, queue, group)
  end
end

-- Return a task's group and its entry, nil if it has no group.
local function group_entry(ctx, id)
  local share, priority, enqueued_us, flow_ref = unpack(redis.call("HMGET", task_key(ctx, id),
    F.fair_share, F.priority, F.enqueued_at_us, F.flow_ref))
  if not share then
    return nil
  end
  local _, group = parse_share(share)
  return group, group .. entry_order(id, priority, enqueued_us, flow_ref)
end

-- Return how many tasks of its group come before a task, and the group; nil if it is not among the ready ones of a group.
local function rank_in_group(ctx, id, queue)
  local group, entry = group_entry(ctx, id)
  local grouped = queue_key(ctx, queue, P.grouped)
  if group and redis.call("ZSCORE", grouped, entry) then
    return redis.call("ZLEXCOUNT", grouped, "[" .. group .. "\t", "(" .. entry), group
  end
end

-- Put a ready task into its group. Return false if it has none.
local function enter_group(ctx, id, queue)
  local group, entry = group_entry(ctx, id)
  if not group then
    return false
  end
  redis.call("ZADD", queue_key(ctx, queue, P.grouped), 0, entry)
  enter_turns(ctx, queue, group)
  return true
end

-- Forget the turns when no group has a task.
local function forget_turns(ctx, queue)
  if redis.call("EXISTS", queue_key(ctx, queue, P.grouped)) == 0 then
    redis.call("DEL", queue_key(ctx, queue, P.turns))
  end
end

-- Take a task out of its group. Return how many entries it had there.
local function leave_group(ctx, id, queue)
  local _, entry = group_entry(ctx, id)
  local removed = entry and redis.call("ZREM", queue_key(ctx, queue, P.grouped), entry) or 0
  if removed > 0 then
    forget_turns(ctx, queue)
  end
  return removed
end
