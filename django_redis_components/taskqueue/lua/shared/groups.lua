-- Groups of the option `fair`. The ready tasks of all groups of a queue are in one zset, in which those of one group are adjacent.
-- An entry is "group\tpriority\tenqueued_at_us\tid". A second zset has the groups in the order of their turns: a group enters it
-- behind all others, and goes behind them again after its turn. Groups without ready tasks, and paused ones, leave it when
-- their turn comes. The group of a task with the option `batch` has its turn when the batch is full, or when it has waited as
-- long as it may.
-- @include wakeups

-- Return the end of the entry of a task that waits for a turn or for a limit, "\tpriority\tenqueued_at_us\tid" (tasks of one flow
-- by their order in it). It follows from the record, and stays the same while the task is pending.
local function entry_order(id, priority, enqueued_us, flow_ref)
  local number = flow_ref and string.format("\t%05d", string.match(flow_ref, "%d+$")) or ""
  return string.format("\t%03d\t%s%s\t%s", 100 - tonumber(priority or 0), enqueued_us, number, id)
end

local function task_of(entry)
  return string.match(entry, "[^\t]+$")
end

-- The entry in `turns` for the tasks without a group. No group has this name.
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
  local number = redis.call("ZSCORE", queue_key(ctx, queue, P.turns), group)
  if not number or tonumber(number) >= TURN.filling then
    take_last_turn(ctx, queue, group)
  end
end

-- Let the group of a batch have turns if it has as many tasks as a batch, or if one that has been ready since then has waited
-- as long as it may. Otherwise it has them at that time, unless it has an earlier one. `batch`: "size/wait_ms". Return whether it
-- has turns.
local function enter_batch(ctx, queue, group, batch, since_us)
  local size, wait_ms = string.match(batch, "^(%d+)/(%d+)$")
  -- Tasks that are accepted together count as accepted one microsecond after another.
  local start_ms = math.floor(math.min(since_us, ctx.now_us) / 1000) + wait_ms
  local ready = redis.call("ZLEXCOUNT", queue_key(ctx, queue, P.grouped), "[" .. group .. "\t", "(" .. group .. "\n")
  if start_ms <= ctx.now_ms or ready >= tonumber(size) then
    enter_turns(ctx, queue, group)
    return true
  end
  local turns, score = queue_key(ctx, queue, P.turns), string.format("%.0f", TURN.filling + start_ms)
  local is_earlier = redis.call("ZADD", turns, "LT", "CH", score, group) == 1
  if is_earlier and redis.call("ZRANGEBYSCORE", turns, TURN.filling, "+inf", "LIMIT", 0, 1)[1] == group then
    notify_queue(ctx, queue)
    notify(ctx, "poller")
  end
  return tonumber(redis.call("ZSCORE", turns, group)) < TURN.filling
end

-- Return when the next batch that is not full starts, in ms; nil without one.
local function next_batch_ms(ctx, queue)
  local score = redis.call("ZRANGEBYSCORE", queue_key(ctx, queue, P.turns), TURN.filling, "+inf", "WITHSCORES", "LIMIT", 0, 1)[2]
  return score and tonumber(score) - TURN.filling
end

-- Return whether a group has a turn now.
local function has_turn(ctx, queue)
  return redis.call("ZCOUNT", queue_key(ctx, queue, P.turns), "-inf", string.format("(%.0f", TURN.filling)) > 0
end

-- Let the batches that have waited as long as they may have turns.
local function enter_due_batches(ctx, queue)
  local due = redis.call("ZRANGEBYSCORE", queue_key(ctx, queue, P.turns), TURN.filling, TURN.filling + ctx.now_ms, "LIMIT", 0, 100)
  for _, group in ipairs(due) do
    take_last_turn(ctx, queue, group)
  end
end

-- Return whether the next start of its rate is reserved for a task in its queue. Then its batch has had its turn before.
local function has_reserved_start(ctx, id, queue, rate)
  local limit = "r:" .. string.match(rate, "^%d+/%d+/(.*)$") -- see limit_key.lua
  local entry = redis.call("HGET", queue_key(ctx, queue, P.reserved), limit)
  return entry and task_of(entry) == id
end

-- Return a task's group and its entry, nil if it has no group; of a batch also "size/wait_ms", since when it is ready, and its
-- rate.
local function group_entry(ctx, id)
  local share, priority, enqueued_us, flow_ref, batch, due_ms, rate = unpack(redis.call("HMGET", task_key(ctx, id),
    F.fair_share, F.priority, F.enqueued_at_us, F.flow_ref, F.batch, F.due_at_ms, F.rate))
  if not share then
    return nil
  end
  local _, group = parse_share(share)
  local since_us = batch and math.max(tonumber(enqueued_us), (tonumber(due_ms) or 0) * 1000)
  return group, group .. entry_order(id, priority, enqueued_us, flow_ref), batch, since_us, rate
end

-- Return how many tasks of its group come before a task, and the group; nil if it is not among the ready ones of a group.
local function rank_in_group(ctx, id, queue)
  local group, entry = group_entry(ctx, id)
  local grouped = queue_key(ctx, queue, P.grouped)
  if group and redis.call("ZSCORE", grouped, entry) then
    return redis.call("ZLEXCOUNT", grouped, "[" .. group .. "\t", "(" .. entry), group
  end
end

-- Put a ready task into its group. `ready_us`: since when it is ready; nil: since it was accepted or due. Return false if it has
-- none; then whether it waits until its batch is full.
local function enter_group(ctx, id, queue, ready_us)
  local group, entry, batch, since_us, rate = group_entry(ctx, id)
  if not group then
    return false
  end
  redis.call("ZADD", queue_key(ctx, queue, P.grouped), 0, entry)
  if batch then
    ready_us = rate and has_reserved_start(ctx, id, queue, rate) and 0 or ready_us
    return true, not enter_batch(ctx, queue, group, batch, ready_us or since_us)
  end
  enter_turns(ctx, queue, group)
  return true, false
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
