-- Settle finished tasks, then take up to `want` tasks from the queues in strict order and lease them.
-- Precondition: no other thread of the worker has this name, and `request` grows with each of its new calls.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] worker  id
-- ARGV[2] thread  name of the caller's thread
-- ARGV[3] request  number; the same number again repeats a call whose reply was lost
-- ARGV[4] lease_ms  duration of a lease without renewal
-- ARGV[5] want  maximum number of tasks
-- ARGV[6] failed_limit  how many failed tasks a queue keeps
-- ARGV[7] finished_limit  how many successful tasks, cancelled and expired ones a queue lists; 0: none
-- ARGV[8] finished_ttl_ms  how long they are listed
-- ARGV[9] queues  how many queue names follow
-- ARGV[10..] rest  queue names; then for each ack: id, token, outcome, payload, delay_ms, ttl_ms, ran_us; the start of the
--         message instead of delay_ms if the outcome is succeeded; if it is failed or retried: fingerprint, description
-- DERIVED base:t:<id> hash, :errors, :done lists, base:q:<queue>:* lists, zsets, hashes and strings, base:queues zset,
--         base:last_fetch:<worker>:<thread> string, base:wakeup:* zset, base:paused hash, base:limit:*, :rate:* strings,
--         base:holders:*, :concurrency_waiters:* zsets, base:quarantine:<worker> string, base:unique:<digest>, :sequence strings,
--         base:flow:<flow> hash, base:unfinished_flows zset
-- Returns {acks, tasks, next_due_ms, now_us}: acks 1 applied, 2 applied before, 0 lease expired; each task
--         {id, token, name, body, queue, attempts, runs, enqueued_us, first_leased_us}, of a batch with the tasks behind the
--         first one as the tenth item; next_due_ms is 0 when no task is scheduled and no batch waits, and now when the call skipped so
--         many tasks that it stopped early
-- Cost: O(acks + want) times O(log n)
local base = KEYS[1]
local worker = ARGV[1]
local thread = ARGV[2]
local request = ARGV[3]
local lease_ms = tonumber(ARGV[4])
local want = tonumber(ARGV[5])
local failed_limit = ARGV[6]
local finished_limit = tonumber(ARGV[7])
local finished_ttl_ms = ARGV[8]
local queues = tonumber(ARGV[9])
-- @include flush
-- @include finished_list
-- @lazy groups: next_batch_ms, has_turn
-- @lazy rare
-- @lazy settle: settle_all
-- @include lease

local now_us = server_time_us()
local now_ms = math.floor(now_us / 1000)
-- One table of its final size: to grow it field by field takes longer. Times are text as records store it, since Redis is
-- slow at formatting such numbers.
local ctx = {
  base = base, now_us = now_us, now_ms = now_ms, now_text = string.format("%.0f", now_us),
  finished_limit = finished_limit, finished_ttl_ms = finished_ttl_ms,
  worker = worker, token = worker .. "/" .. thread .. "/" .. request, failed_limit = failed_limit,
  lease_until = string.format("%.0f", now_ms + lease_ms), want = want, tasks = {}, skipped = 0,
}

-- Most queues that one command looks at, and how many a worker has at least that looks at several together: of few ones it
-- finds the one with tasks earlier by looking at each.
local MAX_TOGETHER, MANY_QUEUES = 64, 17

-- Return whether these queues have no tasks to start, by one command: most of many queues are empty.
local function are_empty(from, to)
  local keys = {}
  for index = from, to do
    local prefix, size = queue_key(ctx, ARGV[index], ""), #keys
    keys[size + 1], keys[size + 2], keys[size + 3] = prefix .. P.ready, prefix .. P.requeued, prefix .. P.priority
    keys[size + 4], keys[size + 5] = prefix .. P.scheduled, prefix .. P.turns
  end
  return redis.call("EXISTS", unpack(keys)) == 0
end

-- Notify another worker of the tasks that this call leaves in a queue. Return when the next one is due, if any is
-- scheduled. `was_plain`: before the call the queue had only ready tasks.
local function leave_rest(queue, was_plain)
  local due_ms
  if not was_plain or ctx.skipped > 0 or ctx.used_limits then
    local score = redis.call("ZRANGE", queue_key(ctx, queue, P.scheduled), 0, 0, "WITHSCORES")[2]
    due_ms = score and math.ceil(score)
  end
  if ctx.has_turns or ctx.grouped then
    local batch_ms = groups().next_batch_ms(ctx, queue)
    due_ms = batch_ms and math.min(batch_ms, due_ms or batch_ms) or due_ms
  end
  if not wants_more(ctx) then
    local is_due_soon = due_ms and due_ms < ctx.now_ms + 5000
    local prefix = queue_key(ctx, queue, "")
    if is_due_soon or redis.call("EXISTS", prefix .. P.ready, prefix .. P.requeued, prefix .. P.priority) > 0
      or (ctx.has_turns or ctx.grouped) and groups().has_turn(ctx, queue) then
      notify(ctx, "q:" .. queue)
      ctx.has_left = true
    end
  end
  return due_ms
end

local acks = #ARGV >= 10 + queues and settle().settle_all(ctx, ARGV, 10 + queues) or {}
if want == 0 then
  flush(ctx)
  return { acks, {}, 0, now_us }
end

local last_fetch = base_key(ctx, K.last_fetch, worker .. ":" .. thread)
local stored = redis.call("GET", last_fetch)
if stored and string.match(stored, "^%S+") == request then
  -- Return the row of a task that is still leased by this request, nil for another.
  local function leased_row(id)
    local lease, state, name, body, queue, attempts, runs, enqueued_us, first_leased_us = unpack(redis.call("HMGET",
      task_key(ctx, id), F.lease, F.state, F.task_name, F.body, F.queue, F.attempts, F.runs, F.enqueued_at_us,
      F.first_leased_at_us))
    if lease == ctx.token and state == S.running then
      return { id, ctx.token, name, body, queue, attempts or 0, runs or 0, enqueued_us, first_leased_us }
    end
  end

  -- The reply gets the tasks of the request that are still leased by it; the ids of a batch are one word.
  for ids in string.gmatch(string.match(stored, "^%S+(.*)"), "%S+") do
    local rows = {}
    for id in string.gmatch(ids, "[^,]+") do
      rows[#rows + 1] = leased_row(id)
    end
    local first = table.remove(rows, 1)
    if #rows > 0 then
      first[10] = rows
    end
    ctx.tasks[#ctx.tasks + 1] = first
  end
  flush(ctx)
  return { acks, ctx.tasks, 0, now_us }
end

-- One command for both, as most sites have no pause, and most queues only ready tasks.
local others = queues > 0 and count_others(ctx, ARGV[10], base_key(ctx, K.paused)) or 0
local has_pauses = others > 0 and redis.call("EXISTS", base_key(ctx, K.paused)) == 1
others = has_pauses and others - 1 or others
local next_due_ms = 0
local index, last, together = 10, 9 + queues, 1
while index <= last do
  if together > 1 and queues >= MANY_QUEUES and are_empty(index, math.min(index + together - 1, last)) then
    index, together = index + together, math.min(2 * together, MAX_TOGETHER)
  else
    local queue, taken = ARGV[index], #ctx.tasks + ctx.skipped
    local due_ms = has_pauses and paused_until(ctx, queue)
    if not due_ms then
      others = index == 10 and others or count_others(ctx, queue)
      ctx.has_left = others > 0
      due_ms = leave_rest(queue, lease_from(ctx, queue, others))
    end
    if due_ms and due_ms > 0 and (next_due_ms == 0 or due_ms < next_due_ms) then
      next_due_ms = due_ms
    end
    -- A queue in which something was is followed by one of its kind: to look at several would be one command more.
    local was_empty = not has_pauses and not ctx.has_left and #ctx.tasks + ctx.skipped == taken
    index, together = index + 1, was_empty and 2 or 1
  end
end
if ctx.skipped >= MAX_SKIPPED then
  next_due_ms = now_ms
end
if #ctx.tasks > 0 then
  local ids = {}
  for index, task in ipairs(ctx.tasks) do
    ids[index] = task[1]
  end
  if ctx.has_batches then -- the ids of a batch are one word
    for index, task in ipairs(ctx.tasks) do
      for _, other in ipairs(task[10] or {}) do
        ids[index] = ids[index] .. "," .. other[1]
      end
    end
  end
  redis.call("SET", last_fetch, request .. " " .. table.concat(ids, " "), "PX", lease_ms)
end
flush(ctx)
return { acks, ctx.tasks, next_due_ms, now_us }
