-- Accept the tasks of a flow, or a part of them. The last part starts the tasks that wait for no other, or the first of these;
-- continue_flow.lua and the poller start the others.
-- Precondition: the ids are new, or the call is a repetition; the parts are sent one after the other.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] flow_id  id
-- ARGV[2] tasks  how many the whole flow has, without the callbacks
-- ARGV[3] last  1: this is the last part
-- ARGV[4] ttl_ms  how long the flow is kept when all tasks have succeeded
-- ARGV[5] failed_ttl_ms  how long it is kept otherwise
-- ARGV[6] on_error  number of the task that runs when another fails; empty: none
-- ARGV[7] result_of  JSON: the numbers of the tasks whose results are the flow's; empty in other parts than the last
-- ARGV[8] row  empty, or the token of the flow's row in the outbox: then it is accepted once, also after it was deleted. A relay
--         adds a space and its number, see enqueue_once.lua
-- ARGV[9..] nodes  for each task: number, followers, open parents, n, and the n arguments of enqueue.lua. The number of
--          the on_complete task is tasks + 1, that of the on_success task tasks + 2. Behind those of the first task may be
--          fields of the flow and values: FLOW.tree, FLOW.given, and last FLOW.callback_of
-- DERIVED base:flow:<flow> hash, base:t:<id> hash, base:q:<queue>:ready list, :scheduled, :priority, :waiting, :grouped,
--         :turns zsets, base:sequence string, base:queues, :unfinished_flows, :partial_flows, :flow_work, :wakeup:* zsets, base:paused hash, base:limit:* strings,
--         base:outbox zset
-- Returns above 0: microseconds since the epoch at which this part was accepted
-- Returns below 0: the same, of a row that another sender has sent
-- Returns 0: earlier parts have expired or were evicted, or the flow whose callback this is, and no task was started
-- Cost: O(tasks) times O(log n)
local base = KEYS[1]
local flow_id = ARGV[1]
local tasks = tonumber(ARGV[2])
local last = ARGV[3] == "1"
local ttl_ms = ARGV[4]
local failed_ttl_ms = ARGV[5]
local on_error = ARGV[6]
local result_of = ARGV[7]
-- @include flow_accept
-- @include outbox_token
-- @lazy flow_work: begin_flow

local FIELDS = { [FLOW.tree] = true, [FLOW.given] = true, [FLOW.callback_of] = true }

local ctx = new_context(base)
local key = base_key(ctx, K.flow, flow_id)
local row, sender = string.match(ARGV[8], "^(%S*) ?(%d?)$")
sender = tonumber(sender) or 0
local accepted_before = row ~= "" and token_reply(ctx, row, sender) or redis.call("HGET", key, FLOW.enqueued_at_us)
if accepted_before then
  return tonumber(accepted_before)
end

-- A callback starts once, also if its flow has finished and expired before the task that starts it runs again.
local last_of_first = 12 + tonumber(ARGV[12])
if ARGV[last_of_first - 1] == FLOW.callback_of then
  local outer = base_key(ctx, K.flow, ARGV[last_of_first])
  local started, outer_tasks = unpack(redis.call("HMGET", outer, FLOW.started .. flow_id, FLOW.tasks))
  if started or not outer_tasks then
    return tonumber(started or 0)
  end
  redis.call("HSET", outer, FLOW.started .. flow_id, ctx.now_us)
end

-- What only this index knows is deleted after an hour. A flow in one part needs no entry.
local partial = base_key(ctx, K.partial_flows)
local is_first = ARGV[9] == "0"
if is_first and not last then
  redis.call("ZADD", partial, ctx.now_ms, flow_id)
  redis.call("HDEL", key, FLOW.sweep)
elseif not is_first and not redis.call("ZSCORE", partial, flow_id) then
  return 0
end

-- Store the fields of the flow, which may come behind the arguments of the first task. Return the last of these.
local function take_fields(last)
  while FIELDS[ARGV[last - 1]] do
    redis.call("HSET", key, ARGV[last - 1], ARGV[last])
    last = last - 2
  end
  return last
end

local index = 9
while index <= #ARGV do
  local number, followers, open_parents, count = unpack(ARGV, index, index + 3)
  local last_argument = index + 3 + count
  accept_node(ctx, key, flow_id, number, followers, ARGV, index + 4,
    number == "0" and take_fields(last_argument) or last_argument)
  if tonumber(open_parents) > 0 then
    redis.call("HSET", key, FLOW.open_parents .. number, open_parents)
  end
  index = index + 4 + count
end
if not last then
  return ctx.now_us
end

redis.call("ZREM", partial, flow_id)
redis.call("HSET", key, FLOW.enqueued_at_us, ctx.now_us, FLOW.tasks, tasks, FLOW.unfinished, tasks,
  FLOW.ttl_ms, ttl_ms, FLOW.failed_ttl_ms, failed_ttl_ms, FLOW.result_of, result_of)
redis.call("ZADD", base_key(ctx, K.unfinished_flows), ctx.now_ms, flow_id)
if row ~= "" then
  add_token(ctx, row, ctx.now_us, sender)
end
if on_error ~= "" then
  redis.call("HSET", key, FLOW.on_error, on_error)
end
for offset, field in ipairs({ FLOW.on_complete, FLOW.on_success }) do
  if redis.call("HEXISTS", key, tasks + offset) == 1 then
    redis.call("HSET", key, field, tasks + offset)
  end
end
flow_work().begin_flow(ctx, key, flow_id, tasks)
return ctx.now_us
