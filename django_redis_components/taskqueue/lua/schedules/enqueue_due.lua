-- Enqueue the task of one due time of a schedule, and record the due time: both or neither, and once.
-- Precondition: due times of a schedule are sent in order.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] poller  id of the caller
-- ARGV[2] name  of the schedule
-- ARGV[3] due_ms  milliseconds since the epoch
-- ARGV[4] next_ms  the following due time, for the dashboard; 0 for none
-- ARGV[5] count  most tasks that the schedule sends; 0 for no limit
-- ARGV[6..] rest  the arguments of enqueue.lua
-- DERIVED base:poller string, base:schedule:<name>, :paused_schedules, :schedule_counts hashes; and those of enqueue.lua
-- Returns {1, last_ms}: enqueued; last_ms is the last due time that was handled
-- Returns {2, last_ms}: not enqueued, since another task has its unique key
-- Returns {3, last_ms}: not enqueued, since the schedule is paused
-- Returns {4, last_ms}: not enqueued, since the schedule has sent as many tasks as it may
-- Returns {0, last_ms}: this due time, or a later one, was handled before; or the schedule was removed
-- Returns {-1, last_ms}: its time has not come
-- Returns {-2, last_ms}: another poller is active
-- Cost: that of enqueue.lua
local base = KEYS[1]
local poller = ARGV[1]
local name = ARGV[2]
local due_ms = tonumber(ARGV[3])
local next_ms = ARGV[4]
local count = tonumber(ARGV[5])
-- @include accept

local ctx = new_context(base)
local task_id, schedule_key = ARGV[6], base_key(ctx, K.schedule, name)
local counts = base_key(ctx, K.schedule_counts)
local last_ms = tonumber(redis.call("HGET", schedule_key, "last") or 0)
if redis.call("GET", base_key(ctx, K.poller)) ~= poller then
  return { -2, last_ms }
end
if due_ms > ctx.now_ms then
  return { -1, last_ms }
end
if due_ms <= last_ms then
  -- A repetition after a lost reply gets the same reply.
  return { redis.call("HGET", schedule_key, "id") == task_id and 1 or 0, last_ms }
end
local sent = count > 0 and tonumber(redis.call("HGET", counts, name) or 0) or 0
if count > 0 and sent >= count then
  redis.call("HSET", schedule_key, "next", 0)
  return { 4, last_ms }
end
local is_paused = redis.call("HEXISTS", base_key(ctx, K.paused_schedules), name) == 1
local accepted, ready_queue
if not is_paused then
  accepted, ready_queue = accept_task(ctx, ctx.now_us, ARGV, 6, #ARGV)
end
-- Behind an error of the task: the due time is tried again.
redis.call("HSET", schedule_key, "last", due_ms, "next", next_ms)
if is_paused then
  return { 3, due_ms }
end
if ready_queue then
  push_ready(ctx, ready_queue, 1, task_id)
end
if type(accepted) == "table" then
  return { 2, due_ms }
end
redis.call("HSET", schedule_key, "fired", ctx.now_us, "id", task_id)
if count > 0 then
  redis.call("HSET", counts, name, sent + 1)
  if sent + 1 >= count then
    redis.call("HSET", schedule_key, "next", 0)
  end
end
return { 1, due_ms }
