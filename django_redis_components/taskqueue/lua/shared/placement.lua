-- Putting tasks into the lists and zsets of their queues.
-- @include wakeups

-- Add a queue to the index, unless it is there.
local function index_queue(ctx, queue)
  if ctx.indexed_queue ~= queue then
    redis.call("ZADD", base_key(ctx, K.queues), "NX", ctx.now_ms, queue)
    ctx.indexed_queue = queue
  end
end

-- Push accepted tasks onto the ready list. If the list was empty, the queue may not be in the index.
local function push_ready(ctx, queue, count, ...)
  if redis.call("RPUSH", queue_key(ctx, queue, P.ready), ...) == count then
    index_queue(ctx, queue)
  end
  notify_queue(ctx, queue)
end

-- Schedule a task, and notify those who wait for the queue's next due time of an earlier one.
-- Tasks due in one millisecond are served in order of arrival: their scores are above due_ms - 1 and up to due_ms, one
-- step apart, so that a score rounded up is the due time. A double has 53 bits: 41 for the milliseconds until the year
-- 2039 leave 12, thus 4,096 steps; 48 bits until 9999 leave 5.
local function schedule(ctx, queue, id, due_ms)
  local scheduled = queue_key(ctx, queue, P.scheduled)
  local function last_score(ms)
    local above = string.format("(%.0f", ms - 1) -- ".." writes 14 digits only, one less than the last years have
    local range = redis.call("ZREVRANGEBYSCORE", scheduled, ms, above, "WITHSCORES", "LIMIT", "0", "1")
    return tonumber(range[2])
  end
  local ms, last = due_ms, last_score(due_ms)
  -- All steps are used: take the next millisecond that is not full. Full ones are adjacent, so a binary search finds it.
  -- Where cancelled tasks have left gaps, the order may differ by these milliseconds.
  if last and last >= ms then
    local full, free = 0, 1
    while redis.call("ZCOUNT", scheduled, due_ms + free, due_ms + free) > 0 do
      full, free = free, free * 2
    end
    while free - full > 1 do
      local middle = math.floor((full + free) / 2)
      if redis.call("ZCOUNT", scheduled, due_ms + middle, due_ms + middle) > 0 then
        full = middle
      else
        free = middle
      end
    end
    ms = due_ms + free
    last = last_score(ms)
  end
  local step = ms < 2199023255552 and 1 / 4096 or 1 / 32
  redis.call("ZADD", scheduled, math.min(ms, (last or ms - 1) + step), id)
  if redis.call("ZRANGE", scheduled, "0", "0")[1] == id then
    notify_queue(ctx, queue)
    notify(ctx, "poller")
  end
end

-- Order a task by priority, then by arrival; exact below 2^53. Those above 0 are served before the ready list, those
-- below 0 after it.
local function push_priority(ctx, queue, id, priority)
  local sequence = redis.call("INCR", base_key(ctx, K.sequence))
  redis.call("ZADD", queue_key(ctx, queue, P.priority), -priority * 1e13 + sequence, id)
end

-- Put a task into a list of its queue again. placed_at_us tells cancel.lua that no purge before has removed it.
local function requeue(ctx, id, queue, part, command)
  redis.call("HSET", task_key(ctx, id), F.state, S.ready, F.placed_at_us, ctx.now_us)
  redis.call(command, queue_key(ctx, queue, part), id)
end
