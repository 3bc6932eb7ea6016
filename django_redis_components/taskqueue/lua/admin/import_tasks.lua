-- Accept tasks that another shard has set aside; second step of a move. Each comes behind those that are there, with its
-- state, its due time and its history. A task that was accepted by the same move before is not accepted again, even if its
-- record is gone. One whose unique key another task has here is refused, for the same move ever after: the process that was
-- told so returns it to its queue.
-- Precondition: names are validated; at most 1,000 tasks.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] read_at_ms  time of this server before the copies of the tasks were read, in milliseconds since the epoch
-- ARGV[2] failed_ttl_ms  how long failed tasks are kept
-- ARGV[3..] tasks  for each task: id; number of the arguments that follow; op of the export; queue; part; score, "-" without
--         one; ttl_ms of the record, below 0: none; how long it has its unique key, in milliseconds, -1: without an end, 0: it does
--         not have it; when the next start of its rate is, in milliseconds from now; ttl_ms of the errors; number of the errors;
--         the errors; pairs of field and value
-- DERIVED base:t:<id>, base:moving_task:<id> hashes, base:t:<id>:errors list, base:arrived zset, base:q:<queue>:* lists and zsets,
--         base:queues, :wakeup:* zsets, base:paused hash, base:sequence, :unique:<digest>, :limit:*, :rate:* strings
-- Returns {now_ms, status, …}: status 1 of each task that is here, or was; 2 of one that was refused; 0 of one that is being
--         moved away from here
-- Returns {now_ms}: the copies are too old: another process may have finished the move of these tasks since
-- Cost: O(log n) for each task
local base = KEYS[1]
local read_at_ms = tonumber(ARGV[1])
local failed_ttl_ms = ARGV[2]
-- @include place_moved
-- @include limit_key
-- @lazy unique: unique_key, other_holder

local ctx = new_context(base)
-- Shorter than `Ttl.settled_ms`: the entry of a task that another process has finished to move is still there.
local MAX_AGE_MS = 60000
if math.abs(ctx.now_ms - read_at_ms) > MAX_AGE_MS then
  return { ctx.now_ms }
end
local arrived = base_key(ctx, K.arrived)
redis.call("ZREMRANGEBYSCORE", arrived, "-inf", ctx.now_ms)

-- Take over the unique key, for as long as the task has it. Return false if another task here has it.
local function take_key(id, claim, key_ms)
  if not claim or key_ms == "0" then
    return true
  elseif unique().other_holder(ctx, id, claim) then
    return false
  end
  redis.call("SET", unique().unique_key(ctx, claim), id, unpack(key_ms ~= "-1" and { "PX", key_ms } or {}))
  return true
end

-- Let the rate start no task earlier than in the other shard.
local function keep_next_start(rate, next_ms)
  local key = base_key(ctx, K.rate, (parse_limit(F.rate, rate)))
  if tonumber(next_ms) > redis.call("PTTL", key) then
    redis.call("SET", key, string.format("%.0f", ctx.now_us + tonumber(next_ms) * 1000), "PX", next_ms)
  end
end

-- Write the record and the errors of the task at args[first], and put it into its queue.
local function accept(id, first, last)
  local queue, part, score, ttl_ms, key_ms, next_ms, errors_ttl_ms, error_count = unpack(ARGV, first + 1, first + 8)
  local record, index = task_key(ctx, id), first + 9 + error_count
  redis.call("DEL", record, record .. ":errors")
  while index <= last do
    redis.call("HSET", record, unpack(ARGV, index, math.min(index + 499, last)))
    index = index + 500
  end
  if tonumber(error_count) > 0 then
    redis.call("RPUSH", record .. ":errors", unpack(ARGV, first + 9, first + 8 + error_count))
    if tonumber(errors_ttl_ms) > 0 then
      redis.call("PEXPIRE", record .. ":errors", errors_ttl_ms)
    end
  end
  local claim, rate = unpack(redis.call("HMGET", record, F.unique_claim, F.rate))
  if not take_key(id, claim, key_ms) then
    redis.call("DEL", record, record .. ":errors")
    return false
  end
  if rate and next_ms ~= "0" then
    keep_next_start(rate, next_ms)
  end
  if part == P.failed then
    redis.call("PEXPIRE", record, tonumber(ttl_ms) > 0 and ttl_ms or failed_ttl_ms)
  end
  place_moved(ctx, id, queue, part, score, failed_ttl_ms)
  return true
end

local function import(id, first, last)
  local entry = ARGV[first] .. "/" .. id
  local refused = entry .. "/refused"
  if redis.call("ZSCORE", arrived, entry) then
    return 1
  elseif redis.call("ZSCORE", arrived, refused) then
    return 2
  elseif redis.call("EXISTS", base_key(ctx, K.moving_task, id)) == 1 then
    return 0
  end
  if redis.call("HEXISTS", task_key(ctx, id), F.queue) == 0 then
    local has_run, is_accepted = pcall(accept, id, first, last)
    if not has_run then -- the next attempt would take a task with a record for one that is here
      redis.call("DEL", task_key(ctx, id))
      error(is_accepted)
    elseif not is_accepted then
      redis.call("ZADD", arrived, ctx.now_ms + T.arrived_ms, refused)
      return 2
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
