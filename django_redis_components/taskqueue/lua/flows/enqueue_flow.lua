-- Accept the tasks of a flow, or a part of them. The last part starts the tasks that wait for no other.
-- Precondition: the ids are new, or the call is a repetition; the parts are sent one after the other.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] flow_id  id
-- ARGV[2] tasks  how many the whole flow has, without the on_error task
-- ARGV[3] last  1: this is the last part
-- ARGV[4] ttl_ms  how long the flow is kept when all tasks have succeeded
-- ARGV[5] failed_ttl_ms  how long it is kept otherwise
-- ARGV[6] on_error  number of the task that runs when another fails; empty: none
-- ARGV[7] result_of  JSON: the numbers of the tasks whose results are the flow's
-- ARGV[8] row  empty, or the token of the flow's row in the outbox: then it is accepted once, also after it was deleted
-- ARGV[9..] nodes  for each task: number, followers, open parents, n, and the n arguments of enqueue.lua
-- DERIVED base:flow:<flow> hash, base:t:<id> hash, base:q:<queue>:ready list, :scheduled, :priority, :waiting, :grouped,
--         :turns zsets, base:sequence string, base:queues, :unfinished_flows, :wakeup:* zsets, base:paused hash, base:limit:* strings,
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
-- @include limit_key
-- @lazy flow: node, hold, start

local ctx = new_context(base)
local key = base_key(ctx, K.flow, flow_id)
local accepted_before = redis.call("HGET", key, FLOW.enqueued_at_us)
  or row ~= "" and redis.call("ZSCORE", base_key(ctx, K.outbox), row)
if accepted_before then
  return tonumber(accepted_before)
end

-- Write the record and the node of one task; args[first] to args[last] are the arguments of enqueue.lua.
local function accept_node(number, followers, open_parents, args, first_arg, last_arg)
  local id, queue, due, _, _, expires = unpack(args, first_arg, first_arg + 5)
  local record = task_key(ctx, id)
  redis.call("HSET", record, F.queue, queue, F.enqueued_at_us, ctx.now_us, F.state, S.waiting,
    F.flow_ref, flow_id .. "/" .. number)
  redis.call("HSET", record, unpack(args, first_arg + 6, last_arg))
  store_limits(ctx, args, first_arg + 6, last_arg)
  redis.call("PEXPIRE", record, T.partial_flow_ms)
  redis.call("HSET", key, number, id .. " " .. followers)
  if open_parents > 0 then
    redis.call("HSET", key, FLOW.open_parents .. number, open_parents)
  end
  if due ~= "" then
    redis.call("HSET", key, FLOW.due .. number, due)
  end
  if expires ~= "" then
    redis.call("HSET", key, FLOW.expires .. number, expires)
  end
end

local index = 9
while index <= #ARGV do
  local number, followers, open_parents, count = unpack(ARGV, index, index + 3)
  accept_node(number, followers, tonumber(open_parents), ARGV, index + 4, index + 3 + count)
  index = index + 4 + count
end
redis.call("PEXPIRE", key, T.partial_flow_ms)
if not last then
  return ctx.now_us
end

local ids = {}
for number = 0, tasks - 1 + (on_error ~= "" and 1 or 0) do
  ids[number] = flow().node(key, number)
  if not ids[number] or redis.call("PERSIST", task_key(ctx, ids[number])) == 0 then
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
if on_error ~= "" then
  redis.call("HSET", key, FLOW.on_error, on_error)
end
for number, id in pairs(ids) do
  if number == tasks or redis.call("HEXISTS", key, FLOW.open_parents .. number) == 1 then
    flow().hold(ctx, number, id)
  end
end
for number = 0, tasks - 1 do
  if redis.call("HEXISTS", key, FLOW.open_parents .. number) == 0 then
    flow().start(ctx, key, number, ids[number])
  end
end
return ctx.now_us
