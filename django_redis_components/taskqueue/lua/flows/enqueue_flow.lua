-- Accept the tasks of a flow, or a part of them. The last part starts the tasks that wait for no other.
-- Precondition: the ids are new, or the call is a repetition; the parts are sent one after the other.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] flow_id  id
-- ARGV[2] tasks  how many the whole flow has, without the callbacks
-- ARGV[3] last  1: this is the last part
-- ARGV[4] ttl_ms  how long the flow is kept when all tasks have succeeded
-- ARGV[5] failed_ttl_ms  how long it is kept otherwise
-- ARGV[6] on_error  number of the task that runs when another fails; empty: none
-- ARGV[7] result_of  JSON: the numbers of the tasks whose results are the flow's
-- ARGV[8] row  empty, or the token of the flow's row in the outbox: then it is accepted once, also after it was deleted
-- ARGV[9..] nodes  for each task: number, followers, open parents, n, and the n arguments of enqueue.lua. The number of
--          the on_complete task is tasks + 1, that of the on_success task tasks + 2
-- DERIVED base:flow:<flow> hash, base:t:<id> hash, base:q:<queue>:ready list, :scheduled, :priority, :waiting zsets,
--         base:sequence string, base:queues, :unfinished_flows, :wakeup:* zsets, base:paused hash, base:limit:* strings,
--         base:outbox zset
-- Returns above 0: microseconds since the epoch at which this part was accepted
-- Returns 0: earlier parts have expired, and no task was started
-- Cost: O(tasks) times O(log n)
local base = KEYS[1]
local flow_id = ARGV[1]
local tasks = tonumber(ARGV[2])
local last = ARGV[3] == "1"
local ttl_ms = ARGV[4]
local failed_ttl_ms = ARGV[5]
local on_error = ARGV[6]
local result_of = ARGV[7]
local row = ARGV[8]
-- @include flow_accept
-- @lazy flow: node, hold, start

local ctx = new_context(base)
local key = base_key(ctx, K.flow, flow_id)
local accepted_before = redis.call("HGET", key, FLOW.enqueued_at_us)
  or row ~= "" and redis.call("ZSCORE", base_key(ctx, K.outbox), row)
if accepted_before then
  return tonumber(accepted_before)
end

local index = 9
while index <= #ARGV do
  local number, followers, open_parents, count = unpack(ARGV, index, index + 3)
  accept_node(ctx, key, flow_id, number, followers, ARGV, index + 4, index + 3 + count)
  redis.call("PEXPIRE", task_key(ctx, ARGV[index + 4]), T.partial_flow_ms)
  if tonumber(open_parents) > 0 then
    redis.call("HSET", key, FLOW.open_parents .. number, open_parents)
  end
  index = index + 4 + count
end
redis.call("PEXPIRE", key, T.partial_flow_ms)
if not last then
  return ctx.now_us
end

local ids = {}
for number = 0, tasks + 2 do
  ids[number] = flow().node(key, number)
  local is_needed = number < tasks or number == tonumber(on_error)
  if (ids[number] or is_needed) and redis.call("PERSIST", task_key(ctx, ids[number] or "")) == 0 then
    return 0
  end
end
redis.call("HSET", key, FLOW.enqueued_at_us, ctx.now_us, FLOW.tasks, tasks, FLOW.unfinished, tasks,
  FLOW.ttl_ms, ttl_ms, FLOW.failed_ttl_ms, failed_ttl_ms, FLOW.result_of, result_of)
redis.call("PERSIST", key)
redis.call("ZADD", base_key(ctx, K.unfinished_flows), ctx.now_ms, flow_id)
if row ~= "" then
  redis.call("ZADD", base_key(ctx, K.outbox), ctx.now_us, row)
end
for offset, field in ipairs({ FLOW.on_error, FLOW.on_complete, FLOW.on_success }) do
  if ids[tasks + offset - 1] then
    redis.call("HSET", key, field, tasks + offset - 1)
  end
end
for number, id in pairs(ids) do
  if number >= tasks or redis.call("HEXISTS", key, FLOW.open_parents .. number) == 1 then
    flow().hold(ctx, number, id)
  end
end
for number = 0, tasks - 1 do
  if redis.call("HEXISTS", key, FLOW.open_parents .. number) == 0 then
    flow().start(ctx, key, number, ids[number])
  end
end
return ctx.now_us
