-- Taking pending tasks out of their queue, so that they can be put elsewhere.
-- @include entry_time
-- @lazy groups: leave_group
-- @lazy limit_queue: leave

-- Most entries of the requeued list that one call looks at, and of the ready list behind the rank at which a task is
-- looked for: those that entered it at the same time.
local MAX_REQUEUED, MAX_BEHIND = 10000, 1000
local FINAL_OR_RUNNING = {
  [S.running] = true, [S.successful] = true, [S.failed] = true, [S.cancelled] = true, [S.expired] = true,
}

-- Return a task's facts, if it is pending in this queue since the time at the latest: id, state, due_ms, priority,
-- has_limits, share, entered_us. `until_us` empty: since any time.
local function pending_task(ctx, id, queue, until_us)
  local own_queue, state, due_ms, priority, concurrency, rate, share = unpack(redis.call("HMGET", task_key(ctx, id),
    F.queue, F.state, F.due_at_ms, F.priority, F.concurrency, F.rate, F.fair_share))
  local entered = own_queue == queue and not FINAL_OR_RUNNING[state] and entered_us(ctx, id)
  if entered and (until_us == "" or entered <= tonumber(until_us)) then
    return { id = id, state = state, due_ms = tonumber(due_ms), priority = priority,
      has_limits = concurrency or rate, share = share, entered_us = entered }
  end
end

-- Return the zsets by id that the queue has. A start that one task passes to the next may create the scheduled one.
local function zsets_of(ctx, queue)
  local zsets = { P.scheduled }
  for _, part in ipairs({ P.priority, P.unregistered, P.waiting }) do
    zsets[#zsets + 1] = redis.call("EXISTS", queue_key(ctx, queue, part)) == 1 and part or nil
  end
  return zsets
end

-- Take a task out of the zsets of its queue. Sets its part and its score, if it was in one.
local function take_from_zsets(ctx, queue, task, zsets)
  if task.has_limits and limit_queue().leave(ctx, task.id, queue) > 0 then
    task.part = P.limited
  end
  if task.share and groups().leave_group(ctx, task.id, queue) > 0 then
    task.part = P.grouped
  end
  for _, part in ipairs(zsets) do
    local score = redis.call("ZSCORE", queue_key(ctx, queue, part), task.id)
    if score then
      redis.call("ZREM", queue_key(ctx, queue, part), task.id)
      task.part, task.score = part, score
    end
  end
  if task.state == S.retrying then
    redis.call("ZREM", queue_key(ctx, queue, P.retrying), task.id)
  end
end

local function requeued_ranks(ctx, queue, wanted)
  local ranks = {}
  for position, id in ipairs(redis.call("LRANGE", queue_key(ctx, queue, P.requeued), 0, MAX_REQUEUED - 1)) do
    ranks[id] = wanted[id] and position - 1
  end
  return ranks
end

-- The ready list is in the order in which its tasks entered it. Tasks are looked for in this order, too: those that are
-- behind each other are found together.
local function ready_ranks(ctx, queue, wanted)
  local tasks, ranks = {}, {}
  for _, task in pairs(wanted) do
    tasks[#tasks + 1] = task
  end
  table.sort(tasks, function(one, other)
    return one.entered_us < other.entered_us
  end)
  for _, task in ipairs(tasks) do
    local past = ranks[task.id] and MAX_BEHIND or 0
    local from = past == 0 and ready_rank(ctx, queue, task.entered_us) or 0
    while not ranks[task.id] and past < MAX_BEHIND do
      local members = redis.call("LRANGE", queue_key(ctx, queue, P.ready), from + past, from + past + 99)
      for position, member in ipairs(members) do
        ranks[member] = wanted[member] and from + past + position - 1
      end
      past = #members == 100 and past + 100 or MAX_BEHIND
    end
  end
  return ranks
end

-- Take tasks out of a list of the queue, those at these ranks by id; sets their part.
local function take_from_list(ctx, queue, part, wanted, ranks)
  local key, count, first = queue_key(ctx, queue, part), 0, math.huge
  for id, rank in pairs(ranks) do
    if wanted[id] then
      redis.call("LSET", key, rank, "")
      wanted[id].part, wanted[id] = part, nil
      count, first = count + 1, math.min(first, rank)
    end
  end
  if count > 0 then
    local is_near_end = first > redis.call("LLEN", key) / 2 -- LREM scans from one end until it has removed `count`
    redis.call("LREM", key, is_near_end and -count or count, "")
  end
end

-- Take those of the tasks out of the queue that are pending there since the time at the latest, and that `accepts`;
-- return them in the order of the ids. One that is in no list or zset of the queue, since a purge has moved it into
-- trash, is left there.
local function take_pending(ctx, queue, ids, until_us, accepts)
  local tasks, listed, seen, has_listed, zsets = {}, {}, {}, false, zsets_of(ctx, queue)
  for _, id in ipairs(ids) do
    local task = not seen[id] and pending_task(ctx, id, queue, until_us)
    seen[id] = true
    if task and accepts(task) then
      tasks[#tasks + 1] = task
      take_from_zsets(ctx, queue, task, zsets)
      listed[id] = not task.part and task or nil
      has_listed = has_listed or not task.part
    end
  end
  if has_listed then
    take_from_list(ctx, queue, P.requeued, listed, requeued_ranks(ctx, queue, listed))
    take_from_list(ctx, queue, P.ready, listed, ready_ranks(ctx, queue, listed))
  end
  local taken = {}
  for _, task in ipairs(tasks) do
    taken[#taken + 1] = task.part and task
  end
  return taken
end
