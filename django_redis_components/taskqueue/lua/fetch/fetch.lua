-- Settle finished tasks, then take up to `want` tasks from the queues in strict order and lease them.
-- Precondition: no other thread of the worker uses the fetch slot, and `request` grows with each of its new calls.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] worker  id
-- ARGV[2] fetch_slot  of the caller's thread
-- ARGV[3] request  number; the same number again repeats a call whose reply was lost
-- ARGV[4] lease_ms  duration of a lease without renewal
-- ARGV[5] want  at most so many tasks
-- ARGV[6] failed_limit  how many failed tasks a queue keeps
-- ARGV[7] queues  how many queue names follow
-- ARGV[8..] rest  queue names; then for each ack: id, token, outcome, payload, delay_ms, ttl_ms, note
-- DERIVED base:t:<id> hash, :errors, :done lists, base:q:<queue>:* lists, zsets, hashes and strings, base:queues zset,
--         base:last_fetch:<worker>:<fetch_slot> string, base:wakeup:* zset, base:paused hash, base:limit:*, :rate:* strings,
--         base:slots:*, :slot_waiters:* zsets, base:quarantine:<worker> string, base:unique:<digest>, :sequence strings,
--         base:flow:<flow> hash
-- Returns {acks, tasks, next_due_ms, now_us}: acks 1 applied, 2 applied before, 0 lease expired; each task
--         {id, token, name, body, queue, attempts, deliveries, enqueued_us, first_leased_us}; next_due_ms is 0 when no
--         task is scheduled, and now when the call skipped so many tasks that it stopped early
-- Cost: O(acks + want) times O(log n)
local base = KEYS[1]
local worker = ARGV[1]
local fetch_slot = ARGV[2]
local request = ARGV[3]
local lease_ms = tonumber(ARGV[4])
local want = tonumber(ARGV[5])
local failed_limit = ARGV[6]
local queues = tonumber(ARGV[7])
-- @include placement
-- @include times
-- @include flush
-- @lazy limit_queue
-- @lazy results
-- @lazy unique
-- @lazy error_stats: write_errors
-- @lazy flow
-- @lazy termination
-- @lazy settle: settle_run, end_leases
-- @include lease

local ctx = new_context(base)
ctx.worker = worker
ctx.failed_limit = failed_limit
ctx.token = worker .. "/" .. fetch_slot .. "/" .. request
ctx.want = want
ctx.tasks, ctx.settled, ctx.skipped = {}, {}, 0
-- Text as records store it: Redis is slow at formatting such numbers.
ctx.now_text = string.format("%.0f", ctx.now_us)
ctx.lease_until = string.format("%.0f", ctx.now_ms + lease_ms)
local next_due_ms = 0

local function see_due(due_ms)
  if due_ms and (next_due_ms == 0 or due_ms < next_due_ms) then
    next_due_ms = due_ms
  end
end

-- Add the tasks of the request to the reply that are still leased by it.
local function repeat_tasks(ids)
  for id in string.gmatch(ids, "%S+") do
    local lease, state, name, body, queue, attempts, deliveries, enqueued_us, first_leased_us = unpack(redis.call("HMGET",
      task_key(ctx, id), F.lease, F.state, F.task_name, F.body, F.queue, F.attempts, F.deliveries, F.enqueued_at_us,
      F.first_leased_at_us))
    if lease == ctx.token and state == S.running then
      ctx.tasks[#ctx.tasks + 1] =
        { id, ctx.token, name, body, queue, attempts or 0, deliveries or 0, enqueued_us, first_leased_us }
    end
  end
end

-- Notify another worker of the tasks that this call leaves in a queue, and see when the next one is due. `was_plain`:
-- before the call the queue had only ready tasks.
local function leave_rest(queue, was_plain)
  local due_ms
  if not was_plain or ctx.skipped > 0 or ctx.used_limits then
    local score = redis.call("ZRANGE", queue_key(ctx, queue, P.scheduled), 0, 0, "WITHSCORES")[2]
    due_ms = score and math.ceil(score)
  end
  see_due(due_ms)
  if not wants_more(ctx) then
    local is_due_soon = due_ms and due_ms < ctx.now_ms + 5000
    local ready, requeued = queue_key(ctx, queue, P.ready), queue_key(ctx, queue, P.requeued)
    if is_due_soon or redis.call("EXISTS", ready, requeued, queue_key(ctx, queue, P.priority)) > 0 then
      notify(ctx, "q:" .. queue)
    end
  end
end

local acks = {}
if #ARGV >= 8 + queues then
  local settle_run = settle().settle_run
  for at = 8 + queues, #ARGV, 7 do
    acks[#acks + 1] = settle_run(ctx, unpack(ARGV, at, at + 6))
  end
  settle().end_leases(ctx)
  if ctx.errors then
    error_stats().write_errors(ctx)
  end
end
if want == 0 then
  flush(ctx)
  return { acks, {}, 0, ctx.now_us }
end

local last_fetch = base_key(ctx, K.last_fetch, worker .. ":" .. fetch_slot)
local stored = redis.call("GET", last_fetch)
if stored and string.match(stored, "^%S+") == request then
  repeat_tasks(string.match(stored, "^%S+(.*)"))
  flush(ctx)
  return { acks, ctx.tasks, 0, ctx.now_us }
end

local has_pauses = redis.call("EXISTS", base_key(ctx, K.paused)) == 1
for at = 8, 7 + queues do
  local until_ms = has_pauses and paused_until(ctx, ARGV[at])
  if not until_ms then
    leave_rest(ARGV[at], lease_from(ctx, ARGV[at]))
  elseif until_ms > 0 then
    see_due(until_ms)
  end
end
if ctx.skipped >= MAX_SKIPPED then
  next_due_ms = ctx.now_ms
end
if #ctx.tasks > 0 then
  local ids = {}
  for at, task in ipairs(ctx.tasks) do
    ids[at] = task[1]
  end
  redis.call("SET", last_fetch, request .. " " .. table.concat(ids, " "), "PX", lease_ms)
end
flush(ctx)
return { acks, ctx.tasks, next_due_ms, ctx.now_us }
