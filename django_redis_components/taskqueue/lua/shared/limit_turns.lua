-- Turns at a limit that several groups of a queue share: those whose tasks wait for it are in a zset in the order of their turns,
-- and a free place is offered to the first task of the group whose turn it is. The task returns to its group. Until it
-- starts, the place is kept for it among the tasks of this queue. An offer is its entry by the number of the turn that it used.
-- Tasks without a group have turns like those of one group of weight 1. Part of limit_queue.lua.
-- @include limit_queue
-- @lazy groups: parse_share, is_group_paused

-- Most offers that one call checks, and most groups without waiting tasks whose turns it forgets.
local MAX_CHECKED, MAX_FORGOTTEN = 10, 100
-- The entry for the tasks without a group, and the part of a turn's number that one task uses: as in turns.lua.
local WITHOUT_GROUP, STEP = "\t", 0.0078125

local function turns_of(ctx, limit, queue)
  return queue_key(ctx, queue, P.limit_turns .. ":" .. limit)
end

local function offers_of(ctx, limit, queue)
  return queue_key(ctx, queue, P.offered .. ":" .. limit)
end

-- Put a group behind all others.
local function move_behind(ctx, limit, queue, group)
  local turns = turns_of(ctx, limit, queue)
  redis.call("ZADD", turns, redis.call("INCR", base_key(ctx, K.sequence)), group)
  redis.call("PEXPIRE", turns, T.limit_ms)
end

-- Let a group have turns, unless it has.
local function join_turns(ctx, limit, queue, group)
  if not redis.call("ZSCORE", turns_of(ctx, limit, queue), group) then
    move_behind(ctx, limit, queue, group)
  end
end

local function first_of_group(ctx, limit, queue, group)
  if group == WITHOUT_GROUP then
    return first_in(ctx, queue, "[" .. limit .. "\t0", "(" .. limit .. "\n")
  end
  local start = limit .. "\t\t" .. group
  return first_in(ctx, queue, "[" .. start .. "\t", "(" .. start .. "\n")
end

-- Forget the turns of a group without waiting tasks, and those of the tasks without a group when no group has turns.
local function leave_turns(ctx, limit, queue, group)
  local turns = turns_of(ctx, limit, queue)
  if not first_of_group(ctx, limit, queue, group) then
    redis.call("ZREM", turns, group)
  end
  local left = redis.call("ZRANGE", turns, 0, 1)
  if left[1] == WITHOUT_GROUP and not left[2] then
    redis.call("DEL", turns)
  end
end

-- Return the entry of the task whose turn it is, its group, and the number of the turn; nil if none waits.
local function next_in_turn(ctx, limit, queue)
  local turns = turns_of(ctx, limit, queue)
  if first_of_group(ctx, limit, queue, WITHOUT_GROUP) then
    join_turns(ctx, limit, queue, WITHOUT_GROUP)
  end
  for _ = 1, MAX_FORGOTTEN do
    local group, number = unpack(redis.call("ZRANGE", turns, 0, 0, "WITHSCORES"))
    local entry = group and first_of_group(ctx, limit, queue, group)
    if entry then
      return entry, group, tonumber(number)
    elseif not group then
      break
    end
    redis.call("ZREM", turns, group)
  end
  -- The turns were evicted, or a purge has left many groups in front.
  local entry = first_entry(ctx, limit, queue)
  if not entry then
    return nil
  end
  local group = group_of(limit, entry) or WITHOUT_GROUP
  join_turns(ctx, limit, queue, group)
  return entry, group, tonumber(redis.call("ZSCORE", turns, group))
end

-- Take a task out of those that wait for the limit. Its group goes behind the others when as many tasks as its weight had
-- their turn.
local function use_turn(ctx, limit, queue, entry, group, number)
  redis.call("ZREM", queue_key(ctx, queue, P.limited), entry)
  local share = group ~= WITHOUT_GROUP and redis.call("HGET", task_key(ctx, entry_id(entry)), F.fair_share)
  if share and number % 1 / STEP + 1 < groups().parse_share(share) then
    redis.call("ZINCRBY", turns_of(ctx, limit, queue), STEP, group)
  else
    move_behind(ctx, limit, queue, group)
  end
  leave_turns(ctx, limit, queue, group)
end

-- Return how many tasks have their turn before a task that waits in a group, about: for each one before it in its group as many
-- as groups have turns.
local function count_ahead(ctx, limit, queue, group, entry)
  local limited, start = queue_key(ctx, queue, P.limited), limit .. "\t\t" .. group
  local all = redis.call("ZLEXCOUNT", limited, "[" .. limit .. "\t", "(" .. limit .. "\n")
  local own = redis.call("ZLEXCOUNT", limited, "[" .. start .. "\t", "(" .. entry)
  local groups_with_turns = redis.call("ZCARD", turns_of(ctx, limit, queue))
  return math.max(0, math.min(all - 1, (own + 1) * groups_with_turns - 1))
end

-- Return whether a task that has an offer may use it: it is in its group, or in the requeued list.
local function may_use(ctx, limit, queue, entry)
  local group = group_of(limit, entry)
  if group and redis.call("ZSCORE", queue_key(ctx, queue, P.grouped), string.sub(entry, #limit + 3)) then
    return not groups().is_group_paused(ctx, queue, group)
  end
  return redis.call("LPOS", queue_key(ctx, queue, P.requeued), entry_id(entry), "MAXLEN", 1000)
end

-- Return whether a free place is left for one more task of the queue. Offers that cannot be used are withdrawn first.
local function has_room(ctx, limit, queue, free)
  local offers = offers_of(ctx, limit, queue)
  local count = free > 0 and redis.call("ZCARD", offers) or 0
  if count < free or free <= 0 then
    return free > 0
  end
  for _, entry in ipairs(redis.call("ZRANGE", offers, 0, MAX_CHECKED - 1)) do
    if not may_use(ctx, limit, queue, entry) then
      count = count - redis.call("ZREM", offers, entry)
    end
  end
  return count < free
end

local function offer(ctx, limit, queue, entry, group, number)
  use_turn(ctx, limit, queue, entry, group, number)
  requeue_entry(ctx, queue, entry)
  local offers = offers_of(ctx, limit, queue)
  redis.call("ZADD", offers, number, entry)
  redis.call("PEXPIRE", offers, T.limit_ms)
end

-- Offer a free place to the task whose turn it is.
local function serve_in_turn(ctx, limit, queue, free)
  if has_room(ctx, limit, queue, free) then
    local entry, group, number = next_in_turn(ctx, limit, queue)
    if entry then
      offer(ctx, limit, queue, entry, group, number)
    end
  end
end

local function withdraw_offer(ctx, limit, queue, entry)
  redis.call("ZREM", offers_of(ctx, limit, queue), entry)
end

-- Return whether a task starts: it has an offer, or a place is free and it is its turn. If not, it waits, in its group's turn.
local function hold_in_turn(ctx, limits, free, has_waiters)
  local limit, queue, entry = limits.concurrency, limits.queue, limits.concurrency_entry
  local offers = offers_of(ctx, limit, queue)
  if free > 0 and not has_waiters and redis.call("EXISTS", offers) == 0 then
    return true
  end
  local number = redis.call("ZSCORE", offers, entry)
  redis.call("ZREM", offers, entry)
  if number and free > 0 then
    return true
  end
  redis.call("ZADD", queue_key(ctx, queue, P.limited), 0, entry)
  if number and limits.group then -- a task of another queue has taken the place
    redis.call("ZADD", turns_of(ctx, limit, queue), number, limits.group)
    redis.call("PEXPIRE", turns_of(ctx, limit, queue), T.limit_ms)
  elseif limits.group then
    join_turns(ctx, limit, queue, limits.group)
  end
  if not has_room(ctx, limit, queue, free) then
    return false
  end
  local first, group, turn = next_in_turn(ctx, limit, queue)
  if first == entry then
    use_turn(ctx, limit, queue, first, group, turn)
    return true
  end
  offer(ctx, limit, queue, first, group, turn)
  return false
end
