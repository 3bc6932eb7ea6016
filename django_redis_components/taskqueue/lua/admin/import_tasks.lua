-- Accept tasks that another shard has set aside; second step of a move. Each comes behind those that are there, with its
-- state, its due time and its history. A task that was accepted by the same move before is not accepted again, even if its
-- record is gone.
-- Precondition: names are validated; at most 1,000 tasks.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] read_at_ms  time of this server before the copies of the tasks were read, in milliseconds since the epoch
-- ARGV[2] failed_ttl_ms  how long failed tasks are kept
-- ARGV[3..] tasks  for each task: id; number of the arguments that follow; op of the export; queue; part; score, "-" without
--         one; ttl_ms of the record, below 0: none; ttl_ms of the errors; number of the errors; the errors; pairs of field and
--         value
-- DERIVED base:t:<id>, base:moving_task:<id> hashes, base:t:<id>:errors list, base:arrived zset, base:q:<queue>:* lists and zsets,
--         base:queues, :wakeup:* zsets, base:paused hash, base:sequence string
-- Returns {now_ms, status, …}: status 1 of each task that is here, or was; 0 of one that is being moved away from here
-- Returns {now_ms}: the copies are too old: another process may have finished the move of these tasks since
-- Cost: O(log n) for each task
local base = KEYS[1]
local read_at_ms = tonumber(ARGV[1])
local failed_ttl_ms = ARGV[2]
-- @include place_pending

local ctx = new_context(base)
-- Shorter than `Ttl.settled_ms`: the entry of a task that another process has finished to move is still there.
local MAX_AGE_MS = 60000
if math.abs(ctx.now_ms - read_at_ms) > MAX_AGE_MS then
  return { ctx.now_ms }
end
local arrived = base_key(ctx, K.arrived)
redis.call("ZREMRANGEBYSCORE", arrived, "-inf", ctx.now_ms)

local function place(task, queue, record_ttl_ms)
  if task.part == P.failed then
    redis.call("ZADD", queue_key(ctx, queue, P.failed), task.score, task.id)
    redis.call("PEXPIRE", queue_key(ctx, queue, P.failed), failed_ttl_ms)
    redis.call("PEXPIRE", task_key(ctx, task.id), record_ttl_ms > 0 and record_ttl_ms or failed_ttl_ms)
  elseif task.part == P.unregistered then
    redis.call("HSET", task_key(ctx, task.id), F.placed_at_us, ctx.now_us)
    redis.call("ZADD", queue_key(ctx, queue, P.unregistered), task.score, task.id)
  else
    place_pending(ctx, task, queue)
  end
end

-- Write the record and the errors of the task at args[first], and put it into its queue.
local function accept(id, first, last)
  local queue, part, score, ttl_ms, errors_ttl_ms, error_count = unpack(ARGV, first + 1, first + 6)
  local record, index = task_key(ctx, id), first + 7 + error_count
  redis.call("DEL", record, record .. ":errors")
  while index <= last do
    redis.call("HSET", record, unpack(ARGV, index, math.min(index + 499, last)))
    index = index + 500
  end
  if tonumber(error_count) > 0 then
    redis.call("RPUSH", record .. ":errors", unpack(ARGV, first + 7, first + 6 + error_count))
    if tonumber(errors_ttl_ms) > 0 then
      redis.call("PEXPIRE", record .. ":errors", errors_ttl_ms)
    end
  end
  local state, priority = unpack(redis.call("HMGET", record, F.state, F.priority))
  local task = { id = id, part = part, score = score ~= "-" and score, state = state, priority = priority }
  place(task, queue, tonumber(ttl_ms))
  index_queue(ctx, queue)
  notify_queue(ctx, queue)
end

local function import(id, first, last)
  local entry = ARGV[first] .. "/" .. id
  if redis.call("ZSCORE", arrived, entry) then
    return 1
  elseif redis.call("EXISTS", base_key(ctx, K.moving_task, id)) == 1 then
    return 0
  end
  if redis.call("HEXISTS", task_key(ctx, id), F.queue) == 0 then
    local is_accepted, problem = pcall(accept, id, first, last)
    if not is_accepted then -- the next attempt would take a task with a record for one that is here
      redis.call("DEL", task_key(ctx, id))
      error(problem)
    end
  end
  redis.call("ZADD", arrived, ctx.now_ms + T.arrived_ms, entry)
  return 1
end

local replies, index = { ctx.now_ms }, 3
while index <= #ARGV do
  local last = index + 1 + ARGV[index + 1]
  replies[#replies + 1] = import(ARGV[index], index + 2, last)
  index = last + 1
end
if redis.call("EXISTS", arrived) == 1 then
  redis.call("PEXPIRE", arrived, T.arrived_ms)
end
notify(ctx, "poller")
return replies
