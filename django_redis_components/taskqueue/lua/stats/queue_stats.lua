-- Read the depths of queues, since when their oldest pending task has waited, and how many workers live. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] first  rank of the first queue of this call in the index, from which it reads 200; with 0 all paused ones, too;
--         empty: the named ones only
-- ARGV[2] lease_ms  duration of a lease: a worker without a heartbeat for so long is lost
-- ARGV[3..] queues  names
-- DERIVED base:queues, :workers zsets, base:paused hash, base:q:<queue>:* lists and zsets, base:t:<id> hash
-- Returns {now_us, rows, next, workers, live}: next is the rank at which the next call continues, 0 after the last queue;
--         workers is how many workers sent a heartbeat in the last ten minutes, live how many of them are not lost; each
--         row {queue, ready, scheduled, running, failed, unregistered, oldest_us, next_due_ms, paused, limited, waiting,
--         latest, latest_us, newest_us, retrying, live}; oldest_us is when the oldest task that waits
--         for a worker was accepted or fell due, 0 when none waits; scheduled includes the retrying ones; paused is "until_ms|since_ms|JSON" or empty; limited is how many of the ready and scheduled
--         ones wait for a limit; waiting is how many wait for other tasks of their flows; the
--         last `latest` tasks of the ready list, 100 at most, were accepted from latest_us to newest_us
-- Cost: O(queues) times O(log n)
local base = KEYS[1]
local first = tonumber(ARGV[1])
local lease_ms = tonumber(ARGV[2])
-- @include wakeups

-- Queues of the index that one call reads.
local CHUNK = 200
local ctx = new_context(base)
local oldest_ms = string.format("%.0f", ctx.now_ms - lease_ms)

-- Return when the first task of a list was accepted; with tombstones, the first of 100 that was not cancelled.
local function first_enqueued_us(queue, part, tombstones)
  for _, id in ipairs(redis.call("LRANGE", queue_key(ctx, queue, part), 0, tombstones > 0 and 99 or 0)) do
    local enqueued_us, state = unpack(redis.call("HMGET", task_key(ctx, id), F.enqueued_at_us, F.state))
    if enqueued_us and state ~= S.cancelled then
      return tonumber(enqueued_us)
    end
  end
end

-- Return how many tasks are at the end of the ready list, 100 at most, and when the first and the last were accepted.
local function latest_arrivals(queue)
  local ready = queue_key(ctx, queue, P.ready)
  local latest = math.min(redis.call("LLEN", ready), 100)
  if latest < 2 then
    return 0, 0, 0
  end
  local function enqueued_us(index)
    return tonumber(redis.call("HGET", task_key(ctx, redis.call("LINDEX", ready, index)), F.enqueued_at_us) or 0)
  end
  return latest, enqueued_us(-latest), enqueued_us(-1)
end

local function oldest_us(queue, tombstones)
  local best = redis.call("ZRANGE", queue_key(ctx, queue, P.priority), 0, 0)[1]
  local scheduled = queue_key(ctx, queue, P.scheduled)
  local due = redis.call("ZRANGEBYSCORE", scheduled, "-inf", ctx.now_ms, "WITHSCORES", "LIMIT", 0, 1)[2]
  local oldest = math.min(
    first_enqueued_us(queue, P.ready, tombstones) or math.huge,
    first_enqueued_us(queue, P.requeued, tombstones) or math.huge,
    best and tonumber(redis.call("HGET", task_key(ctx, best), F.enqueued_at_us) or nil) or math.huge,
    due and math.ceil(due) * 1000 or math.huge
  )
  return oldest < math.huge and oldest or 0
end

local function row(queue)
  local function length(command, part)
    return redis.call(command, queue_key(ctx, queue, part))
  end
  local scheduled = queue_key(ctx, queue, P.scheduled)
  local due = redis.call("ZCOUNT", scheduled, "-inf", ctx.now_ms)
  local first_score = redis.call("ZRANGE", scheduled, 0, 0, "WITHSCORES")[2]
  local ready = length("LLEN", P.ready) + length("LLEN", P.requeued) + length("ZCARD", P.priority)
  local tombstones = tonumber(redis.call("GET", queue_key(ctx, queue, P.tombstones)) or 0)
  local pause = redis.call("HGET", base_key(ctx, K.paused), queue)
  local latest, latest_us, newest_us = latest_arrivals(queue)
  local limited, for_concurrency = length("ZCARD", P.limited), 0
  if limited > 0 then
    for_concurrency = redis.call("ZLEXCOUNT", queue_key(ctx, queue, P.limited), "[c", "(d")
  end
  return {
    queue,
    ready + due + for_concurrency - tombstones,
    length("ZCARD", P.scheduled) - due + limited - for_concurrency,
    length("ZCARD", P.running),
    length("ZCARD", P.failed),
    length("ZCARD", P.unregistered),
    oldest_us(queue, tombstones),
    first_score and math.ceil(first_score) or 0,
    pause and not has_pause_ended(ctx, pause) and pause or "",
    limited,
    length("ZCARD", P.waiting),
    latest,
    latest_us,
    newest_us,
    redis.call("ZCOUNT", queue_key(ctx, queue, P.retrying), "(" .. ctx.now_ms, "+inf"),
    redis.call("ZCOUNT", queue_key(ctx, queue, P.workers), oldest_ms, "+inf"),
  }
end

local names, is_listed = {}, {}
local function list(queues)
  for _, queue in ipairs(queues) do
    if not is_listed[queue] then
      is_listed[queue] = true
      names[#names + 1] = queue
    end
  end
end

local next = 0
if first then
  local indexed = redis.call("ZRANGE", base_key(ctx, K.queues), first, first + CHUNK - 1)
  next = #indexed == CHUNK and first + CHUNK or 0
  list(indexed)
end
if first == 0 then
  list(redis.call("HKEYS", base_key(ctx, K.paused)))
end
list({ unpack(ARGV, 3) })

local rows = {}
for position, queue in ipairs(names) do
  rows[position] = row(queue)
end
local workers = base_key(ctx, K.workers)
return {
  ctx.now_us, rows, next, redis.call("ZCARD", workers), redis.call("ZCOUNT", workers, oldest_ms, "+inf"),
}
