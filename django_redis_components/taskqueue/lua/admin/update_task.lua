-- Change a pending task: its arguments, its queue, its priority or its expiry. A task that keeps its queue and its
-- priority keeps its place; otherwise it comes after those that were there.
-- Precondition: names are validated.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] op  id of the operation, new for each
-- ARGV[3] version  SHA-1 of the message, the unique claim, concurrency, rate and fair share of which the new ones were made, a
--         line each; empty: these stay
-- ARGV[4] claim  manner and digest of the new unique key; empty: it stays
-- ARGV[5] target  name of the queue; empty: it stays
-- ARGV[6] priority  -100 to 100; empty: it stays
-- ARGV[7] expires  as enqueue.lua takes it; never; empty: it stays
-- ARGV[8..] fields  pairs of field and value for the record
-- DERIVED base:t:<id> hash, base:q:<queue>:* lists, zsets, hashes and strings, base:queues, :wakeup:* zsets, base:paused
--         hash, base:reply:<op>, :sequence, :limit:*, :rate:*, :unique:<digest> strings, base:holders:*,
--         :concurrency_waiters:* zsets, base:flow:<flow> hash
-- Returns {1, record}: changed
-- Returns {0, record}: the task is not pending: it runs, has finished or was purged
-- Returns {-1}: the task does not exist
-- Returns {-2}: what the version names has changed
-- Returns {-3}: the time of the expiry has passed
-- Returns {-4, record, other}: another task has the unique key
-- Cost: O(log n); O(n) if a task of a list gets another queue or priority
local base = KEYS[1]
local id = ARGV[1]
local op = ARGV[2]
local version = ARGV[3]
local claim = ARGV[4]
local target = ARGV[5]
local priority = ARGV[6]
local expires = ARGV[7]
-- @include group_placement
-- @include flush
-- @include idempotency
-- @include limit_key
-- @include pending
-- @include place_pending
-- @include states
-- @include times
-- @lazy limit_queue: leave
-- @lazy unique: unique_key, was_purged, other_holder, reacquire_key
-- @lazy flow: parse_ref

local ctx = new_context(base)
local record = task_key(ctx, id)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return { earlier_reply[1], redis.call("HGETALL", record) }
end
local queue, state, body, own_claim, concurrency, rate, own_priority, expiry, due_ms, worker_ids, placed_us,
  enqueued_us, flow_ref, share = unpack(redis.call("HMGET", record, F.queue, F.state, F.body, F.unique_claim, F.concurrency,
    F.rate, F.priority, F.expiry, F.due_at_ms, F.worker_ids, F.placed_at_us, F.enqueued_at_us, F.flow_ref,
    F.fair_share))
if not queue then
  return { -1 }
end
if state == S.running or is_final(state) or unique().was_purged(ctx, id, queue, state, placed_us or enqueued_us) then
  return { 0, redis.call("HGETALL", record) }
end
local current = { body, own_claim or "", concurrency or "", rate or "", share or "" }
if version ~= "" and redis.sha1hex(table.concat(current, "\n")) ~= version then
  return { -2 }
end
local expires_ms = tonumber(string.match(expires, "^%d+"))
if expires_ms and expires_ms <= ctx.now_ms then
  return { -3 }
end

-- A task past its expiry does not prevent others from having its key; with a later expiry it needs the key again.
local has_key = own_claim and redis.call("GET", unique().unique_key(ctx, own_claim)) == id
local is_revived = own_claim and not has_key and expires ~= "" and has_expired(ctx, expiry, worker_ids)
local new_claim = claim ~= "" and claim or own_claim
local other = (is_revived or has_key and claim ~= "") and unique().other_holder(ctx, id, new_claim)
if other then
  return { -4, redis.call("HGETALL", record), other }
end

local function is_pending()
  return true
end

-- A task that needs another place is removed from its present one.
local changes_limits, changes_group, task = false, false, nil
for index = 8, #ARGV, 2 do
  changes_group = changes_group or ARGV[index] == F.fair_share
  if ARGV[index] == F.body and ARGV[index + 1] ~= body then
    redis.call("HDEL", record, F.cursor) -- it is a position in what the earlier arguments named
  end
  changes_limits = changes_limits or ARGV[index] == F.concurrency or ARGV[index] == F.rate
end
local has_place = state ~= S.waiting and state ~= S.unregistered
local changes_priority = priority ~= "" and priority ~= (own_priority or "0")
local changes_queue = target ~= "" and target ~= queue
if changes_queue or (changes_priority or changes_group) and has_place then
  task = take_pending(ctx, queue, { id }, "", is_pending)[1]
  if not task then
    return { 0, redis.call("HGETALL", record) }
  end
elseif changes_limits and has_place and limit_queue().leave(ctx, id, queue) > 0 then
  task = { id = id, state = state, due_ms = tonumber(due_ms), part = P.requeued } -- it waits for its new limits from now on
end

if #ARGV >= 8 then
  redis.call("HSET", record, unpack(ARGV, 8))
  store_limits(ctx, ARGV, 8, #ARGV)
end
if claim ~= "" then
  redis.call("HSET", record, F.unique_claim, claim)
end
if has_key and claim ~= "" then
  redis.call("RENAME", unique().unique_key(ctx, own_claim), unique().unique_key(ctx, claim))
elseif is_revived then
  unique().reacquire_key(ctx, id, new_claim)
end
if changes_priority and priority == "0" then
  redis.call("HDEL", record, F.priority)
elseif changes_priority then
  redis.call("HSET", record, F.priority, priority)
end

-- The expiry of a task that waits for others counts from when it may start.
local flow_key, number
if flow_ref and state == S.waiting then
  flow_key, number = flow().parse_ref(ctx, flow_ref)
end
if expires == "never" then
  redis.call("HDEL", flow_key or record, flow_key and FLOW.expires .. number or F.expiry)
elseif expires ~= "" and flow_key then
  redis.call("HSET", flow_key, FLOW.expires .. number, expires)
elseif expires ~= "" then
  redis.call("HSET", record, F.expiry, parse_expiry(expires, ctx.now_us, tonumber(due_ms or 0)))
end

if task then
  task.priority = redis.call("HGET", record, F.priority)
  local place = changes_queue and target or queue
  place_pending(ctx, task, place)
  index_queue(ctx, place)
  notify_queue(ctx, place)
  notify(ctx, "poller")
end
flush(ctx)
return { reply(ctx, op, { 1 })[1], redis.call("HGETALL", record) }
