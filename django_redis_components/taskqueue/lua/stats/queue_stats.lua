-- Read the depths of queues, since when their oldest pending task has waited, and how many workers live. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] first  rank of the first queue of this call in the index, from which it reads 500; with 0 all paused ones, too;
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
--         last `latest` tasks of the ready list, 100 at most, were accepted from latest_us to newest_us; of more than 50
--         queues only those of a call that reads named queues alone, else 0
-- Cost: O(queues) times O(log n)
local base = KEYS[1]
local first = tonumber(ARGV[1])
local lease_ms = tonumber(ARGV[2])
-- @include wakeups
-- @include groups: first_since_us
-- @include arrivals

-- Queues of the index that one call reads. Of more than WITH_ARRIVALS it does not read the latest arrivals, a quarter of
-- the cost: the caller names those of which it needs them.
local CHUNK, WITH_ARRIVALS = 500, 50
-- Groups of a queue whose first tasks are looked at, and turns in which they are looked for: some groups may be empty by now.
local MAX_GROUPS, MAX_TURNS = 50, 500
local call = redis.call -- looked up once, not for each of some thousand commands
local ctx = new_context(base)
local now_ms, lost_ms = string.format("%.0f", ctx.now_ms), string.format("(%.0f", ctx.now_ms - lease_ms)
local later_ms = "(" .. now_ms
local queue_count = call("ZCARD", base_key(ctx, K.queues))
local with_arrivals = not first or queue_count <= WITH_ARRIVALS
local has_pauses = call("EXISTS", base_key(ctx, K.paused)) == 1

-- Return when the first task of a list was accepted; with tombstones, the first of 100 that was not cancelled.
local function first_enqueued_us(list, tombstones)
  if tombstones == 0 then
    return enqueued_us(ctx, call("LINDEX", list, "0"))
  end
  for _, id in ipairs(call("LRANGE", list, "0", "99")) do
    local accepted_us, state = unpack(call("HMGET", task_key(ctx, id), F.enqueued_at_us, F.state))
    if accepted_us and state ~= S.cancelled then
      return tonumber(accepted_us)
    end
  end
end

-- Return how many scheduled tasks there are, how many of them are due, and the earliest due time.
local function scheduled_counts(scheduled)
  local count = call("ZCARD", scheduled)
  local first_ms = count > 0 and tonumber(call("ZRANGE", scheduled, "0", "0", "WITHSCORES")[2])
  if not first_ms then
    return 0, 0, 0
  end
  return count, first_ms <= ctx.now_ms and call("ZCOUNT", scheduled, "-inf", now_ms) or 0, math.ceil(first_ms)
end

local function current_pause(queue)
  local pause = has_pauses and call("HGET", base_key(ctx, K.paused), queue)
  return pause and not has_pause_ended(ctx, pause) and pause or ""
end

-- Return how many tasks are requeued, prioritized, of groups, limited, running, unregistered, waiting and retrying, and how
-- many tombstones there are. Most queues have none of them, which one command tells.
local function rare_counts(prefix)
  local requeued, priority, limited = prefix .. P.requeued, prefix .. P.priority, prefix .. P.limited
  local grouped, retrying, tombstones = prefix .. P.grouped, prefix .. P.retrying, prefix .. P.tombstones
  local running, unregistered, waiting = prefix .. P.running, prefix .. P.unregistered, prefix .. P.waiting
  if call("EXISTS", requeued, priority, grouped, limited, running, unregistered, waiting, retrying, tombstones) == 0 then
    return 0, 0, 0, 0, 0, 0, 0, 0, 0
  end
  return call("LLEN", requeued), call("ZCARD", priority), call("ZCARD", grouped), call("ZCARD", limited),
    call("ZCARD", running), call("ZCARD", unregistered), call("ZCARD", waiting), call("ZCOUNT", retrying, later_ms, "+inf"),
    tonumber(call("GET", tombstones) or 0)
end

-- Return how many workers live. Most have none that is lost, so that the lost ones are counted faster than the others.
local function live_workers(workers)
  return call("ZCARD", workers) - call("ZCOUNT", workers, "-inf", lost_ms)
end

-- Return since when the oldest of the first tasks of groups waits, of the groups that have the next turns.
local function oldest_grouped_us(queue)
  local oldest_us, groups = math.huge, 0
  for _, group in ipairs(call("ZRANGE", queue_key(ctx, queue, P.turns), 0, MAX_TURNS - 1)) do
    local since_us = first_since_us(ctx, queue, group)
    oldest_us = math.min(oldest_us, since_us or math.huge)
    groups = groups + (since_us and 1 or 0)
    if groups == MAX_GROUPS then
      break
    end
  end
  return oldest_us
end

-- What is empty is not looked into: most queues have tasks in a few states only.
local function row(queue)
  local prefix = queue_key(ctx, queue, "")
  local ready = prefix .. P.ready
  local listed = call("LLEN", ready)
  local requeued, prioritized, grouped, limited, running, unregistered, waiting, retrying, tombstones = rare_counts(prefix)
  local scheduled, due, first_ms = scheduled_counts(prefix .. P.scheduled)
  local pending = listed + requeued + prioritized + grouped
  tombstones = pending > 0 and tombstones or 0
  local for_concurrency = limited > 0 and call("ZLEXCOUNT", prefix .. P.limited, "[c", "(d") or 0
  local oldest_us = math.min(
    listed > 0 and first_enqueued_us(ready, tombstones) or math.huge,
    requeued > 0 and first_enqueued_us(prefix .. P.requeued, tombstones) or math.huge,
    prioritized > 0 and enqueued_us(ctx, call("ZRANGE", prefix .. P.priority, "0", "0")[1]) or math.huge,
    due > 0 and first_ms * 1000 or math.huge,
    grouped > 0 and oldest_grouped_us(queue) or math.huge
  )
  local latest, latest_us, newest_us = latest_arrivals(ctx, ready, with_arrivals and listed or 0)
  return {
    queue,
    pending + due + for_concurrency - tombstones,
    scheduled - due + limited - for_concurrency,
    running,
    call("ZCARD", prefix .. P.failed),
    unregistered,
    oldest_us < math.huge and oldest_us or 0,
    first_ms,
    current_pause(queue),
    limited,
    waiting,
    latest,
    latest_us,
    newest_us,
    scheduled > 0 and retrying or 0,
    live_workers(prefix .. P.workers),
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
  local following = first + CHUNK
  list(call("ZRANGE", base_key(ctx, K.queues), first, following - 1))
  next = queue_count > following and following or 0
end
if first == 0 then
  list(call("HKEYS", base_key(ctx, K.paused)))
end
list({ unpack(ARGV, 3) })

local rows = {}
for position, queue in ipairs(names) do
  rows[position] = row(queue)
end
local workers = base_key(ctx, K.workers)
return {
  ctx.now_us, rows, next, call("ZCARD", workers), live_workers(workers),
}
