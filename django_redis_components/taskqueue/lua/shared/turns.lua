-- Lease tasks of groups, group by group in turn. Part of lease.lua.
-- @include lease
-- @lazy groups: task_of, parse_share, is_group_paused, take_last_turn, enter_turns, forget_turns
-- @lazy groups: enter_batch, enter_due_batches, first_since_us, has_turn

-- Most tasks of batches that one call leases, so that the server serves others in between. One batch may have as many.
local MAX_IN_BATCHES = 500
-- Tasks that expired before they started, or were cancelled or deleted, that one turn passes over.
local MAX_DEAD = 20
-- Part of a turn's number that a task of a group with a weight uses. Numbers of turns are integers, and no weight is above 100.
local STEP = 0.0078125

-- Return the first two entries of a group, those that exist.
local function first_entries(ctx, queue, group)
  return unpack(redis.call("ZRANGEBYLEX", queue_key(ctx, queue, P.grouped), "[" .. group .. "\t", "(" .. group .. "\n",
    "LIMIT", 0, 2))
end

-- Put a task whose workers have died into the requeued list: from there it is leased alone.
local function requeue_suspect(ctx, id, queue)
  redis.call("HSET", task_key(ctx, id), F.state, S.ready, F.placed_at_us, ctx.now_us)
  redis.call("RPUSH", queue_key(ctx, queue, P.requeued), id)
  ctx.requeued_in = ctx.requeued_in or {}
  ctx.requeued_in[queue] = true
  ctx.skipped = ctx.skipped + 1
end

-- Lease further tasks of the batch whose first one was leased last: as many as the batch may have, without those whose workers
-- have died. Its row gets their rows.
local function lease_batch(ctx, queue, group, batch)
  local grouped, tasks, want = queue_key(ctx, queue, P.grouped), ctx.tasks, ctx.want
  local first, size = tasks[#tasks], tonumber(string.match(batch, "^%d+"))
  ctx.tasks, ctx.want = {}, size - 1
  while wants_more(ctx) do
    local ids, entries = {}, redis.call("ZRANGEBYLEX", grouped, "[" .. group .. "\t", "(" .. group .. "\n",
      "LIMIT", 0, ctx.want - #ctx.tasks)
    if #entries == 0 then
      break
    end
    for _, entry in ipairs(entries) do
      local id = groups().task_of(entry)
      if redis.call("HEXISTS", task_key(ctx, id), F.deliveries) == 1 then
        requeue_suspect(ctx, id, queue)
      else
        ids[#ids + 1] = id
      end
    end
    redis.call("ZREM", grouped, unpack(entries))
    lease_all(ctx, ids, queue, true)
  end
  local others = ctx.tasks
  ctx.tasks, ctx.want = tasks, want
  if #others > 0 then
    first[10] = others
    ctx.has_batches = true
  end
  ctx.in_batches = (ctx.in_batches or 0) + #others
  if ctx.in_batches + size > MAX_IN_BATCHES then
    ctx.want = #ctx.tasks
  end
  redis.call("HSET", task_key(ctx, first[1]), F.batch_calls, #others + 1)
  for _, row in ipairs(others) do
    redis.call("HSET", task_key(ctx, row[1]), F.batch_calls, #others + 1)
  end
end

-- Lease the first task of a group. Return its weight if it was leased, whether the group had more, and its batch.
local function lease_first(ctx, queue, group)
  for _ = 1, MAX_DEAD do
    local entry, following = first_entries(ctx, queue, group)
    if not entry then
      return nil, false
    end
    local id = groups().task_of(entry)
    local share, deliveries, batch = unpack(redis.call("HMGET", task_key(ctx, id), F.fair_share, F.deliveries, F.batch))
    redis.call("ZREM", queue_key(ctx, queue, P.grouped), entry)
    if deliveries then
      requeue_suspect(ctx, id, queue)
      return nil, following ~= nil, batch
    elseif lease_all(ctx, { id }, queue, true) then
      return share and groups().parse_share(share) or 1, following ~= nil, batch
    elseif ctx.limited_id == id or not wants_more(ctx) then
      return nil, following ~= nil, batch
    end
  end
  return nil, true
end

-- The entry in `turns` for the tasks without a group.
local WITHOUT_GROUP = "\t"

-- Give a group its turn: it goes behind the others when it has started as many tasks as its weight, or can start none.
local function take_turn(ctx, queue, group, number)
  local turns = queue_key(ctx, queue, P.turns)
  local weight, has_more, batch = lease_first(ctx, queue, group)
  if weight and batch then
    lease_batch(ctx, queue, group, batch)
    has_more = false
  end
  local used = (number % 1) / STEP + 1
  -- The start or the end of a task may make another one of its group ready: one that waited for its limit, or for its flow.
  if not has_more and not first_entries(ctx, queue, group) then
    redis.call("ZREM", turns, group)
    groups().forget_turns(ctx, queue)
    ctx.skipped = ctx.skipped + (weight and 0 or 1) -- its tasks may have been cancelled or moved, as those of many groups
  elseif batch then
    redis.call("ZREM", turns, group)
    groups().enter_batch(ctx, queue, group, batch, groups().first_since_us(ctx, queue, group) or ctx.now_us)
  elseif weight and used < weight then
    redis.call("ZINCRBY", turns, STEP, group)
  else
    groups().take_last_turn(ctx, queue, group)
  end
end

-- Lease the next task without a group, unless it waits for a limit. Return false if there is none.
local function lease_without_group(ctx, queue, others)
  local leased, limited_id = #ctx.tasks, ctx.limited_id
  for _ = 1, MAX_DEAD do
    if not lease_next(ctx, queue, others, 1) then
      return false
    elseif #ctx.tasks > leased or ctx.limited_id ~= limited_id or not wants_more(ctx) then
      break
    end
  end
  return true
end

-- Lease tasks in turn. Tasks without a group have turns like those of one group. Nothing is left to do when no group has a
-- turn, but for batches that are not full: those without a group are served as in other queues.
local function lease_in_turns(ctx, queue, others)
  local turns = queue_key(ctx, queue, P.turns)
  local has_pauses = redis.call("EXISTS", queue_key(ctx, queue, P.paused_groups)) == 1
  groups().enter_due_batches(ctx, queue)
  if not groups().has_turn(ctx, queue) then
    return
  end
  if redis.call("EXISTS", queue_key(ctx, queue, P.ready), queue_key(ctx, queue, P.priority)) > 0 then
    groups().enter_turns(ctx, queue, WITHOUT_GROUP)
  end
  while wants_more(ctx) do
    local group, number = unpack(redis.call("ZRANGE", turns, 0, 0, "WITHSCORES"))
    if not group or tonumber(number) >= TURN.filling then
      return
    elseif group == WITHOUT_GROUP then
      local following = redis.call("ZRANGE", turns, 1, 1, "WITHSCORES")[2]
      if not following or tonumber(following) >= TURN.filling then
        redis.call("ZREM", turns, group)
      elseif lease_without_group(ctx, queue, others) then
        groups().take_last_turn(ctx, queue, group)
      else
        redis.call("ZREM", turns, group)
      end
    elseif has_pauses and groups().is_group_paused(ctx, queue, group) then
      redis.call("ZREM", turns, group)
      ctx.skipped = ctx.skipped + 1
    else
      take_turn(ctx, queue, group, tonumber(number))
    end
  end
end
