-- Cancel tasks of a queue, as cancel.lua does one.
-- Precondition: none; a task that has finished, or entered the queue or started later, is skipped.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] until_us  tasks that entered the queue, or started if they run, until then, in microseconds since the epoch;
--         empty: all of these
-- ARGV[3] ttl_ms  how long their records are kept
-- ARGV[4] force_ms  how long a running task has to stop by itself; empty: running tasks are left alone
-- ARGV[5] op  id of the operation, new for each
-- ARGV[6] finished_limit  how many cancelled tasks a queue lists; 0: none
-- ARGV[7] finished_ttl_ms  how long they are listed
-- ARGV[8..] ids  of tasks
-- DERIVED base:t:<id> hash, :errors, :done lists, base:q:<queue>:* lists, zsets, hashes and strings, base:queues zset,
--         base:paused hash, base:reply:<op>, :limit:*, :rate:* strings, base:holders:*, :concurrency_waiters:*,
--         :unfinished_flows, :wakeup:* zsets, base:unique:<digest>, :sequence strings, base:flow:<flow> hash
-- Returns {n, m}: n tasks cancelled, m running ones asked to stop
-- Cost: O(m log n) for m ids
local base = KEYS[1]
local queue = ARGV[1]
local until_us = ARGV[2]
local ttl_ms = ARGV[3]
local force_ms = tonumber(ARGV[4])
local op = ARGV[5]
local finished_limit = tonumber(ARGV[6])
local finished_ttl_ms = ARGV[7]
-- @include cancellation
-- @include entry_time
-- @include flush
-- @include idempotency

local ctx = new_context(base)
ctx.finished_limit, ctx.finished_ttl_ms = finished_limit, finished_ttl_ms
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end

-- Whether a task is of this queue, since the time at the latest, and was neither cancelled nor asked to stop before.
local function is_selected(id)
  local own_queue, state, leased_us, cancel_request = unpack(redis.call("HMGET", task_key(ctx, id),
    F.queue, F.state, F.leased_at_us, F.cancel_request))
  local since_us = state == S.running and tonumber(leased_us) or entered_us(ctx, id)
  return own_queue == queue and state ~= S.cancelled and not (state == S.running and cancel_request)
    and (until_us == "" or since_us and since_us <= tonumber(until_us))
end

local cancelled, asked = 0, 0
for index = 8, #ARGV do
  local done = is_selected(ARGV[index]) and cancel(ctx, ARGV[index], ttl_ms, force_ms) or 0
  cancelled = cancelled + (done == 1 and 1 or 0)
  asked = asked + (done == 2 and 1 or 0)
end
flush(ctx)
return reply(ctx, op, { cancelled, asked })
