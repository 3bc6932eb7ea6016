-- Requeue unregistered tasks whose names a worker knows by now.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] skip  how many of the oldest unregistered tasks are passed over: those that an earlier call looked at and that
--         stayed
-- ARGV[3] up_to_ms  tasks that became unregistered until then; empty: until now
-- ARGV[4..] names  of tasks that are registered
-- DERIVED base:q:<queue>:unregistered, :grouped, :turns zsets, :requeued list, base:t:<id> hash, base:paused hash, base:wakeup:* zset,
--         base:sequence string
-- Returns {seen, stayed, requeued, up_to_ms}: how many tasks were looked at, 500 at most, stayed unregistered, and were
--         requeued; the argument for the next call of the same round
-- Cost: O(log n) for each of the 500 tasks
local base = KEYS[1]
local queue = ARGV[1]
local skip = tonumber(ARGV[2])
local up_to_ms = ARGV[3]
-- @include group_placement

local ctx = new_context(base)
local is_registered = {}
for index = 4, #ARGV do
  is_registered[ARGV[index]] = true
end
-- Tasks that a worker without their names puts here meanwhile are left to the next round, or this one might never end.
if up_to_ms == "" then
  up_to_ms = string.format("%.3f", ctx.now_us / 1000)
end
local stayed, requeued = 0, 0
local unregistered = queue_key(ctx, queue, P.unregistered)
local ids = redis.call("ZRANGEBYSCORE", unregistered, "-inf", up_to_ms, "LIMIT", skip, 500)
for _, id in ipairs(ids) do
  local name, state = unpack(redis.call("HMGET", task_key(ctx, id), F.task_name, F.state))
  local is_waiting = state == S.unregistered
  if is_waiting and not is_registered[name] then
    stayed = stayed + 1
  else
    redis.call("ZREM", unregistered, id)
  end
  if is_waiting and is_registered[name] then
    requeue_behind(ctx, id, queue, P.requeued)
    notify_queue(ctx, queue)
    requeued = requeued + 1
  end
end
return { #ids, stayed, requeued, up_to_ms }
