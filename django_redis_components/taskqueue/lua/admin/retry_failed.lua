-- Retry failed tasks: those named, or the oldest, of those that failed up to a moment. Their errors stay in the records.
-- Precondition: none; a task that is not failed any more is skipped; one whose unique key another task has stays failed.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] up_to_ms  those that failed until then
-- ARGV[3] limit  maximum number of tasks
-- ARGV[4] op  id of the operation, new for each
-- ARGV[5] skip  how many of the oldest are passed over: those that an earlier call looked at and that stayed
-- ARGV[6..] ids  of tasks
-- DERIVED base:q:<queue>:failed, :priority, :waiting, :grouped, :turns zsets, :ready list, base:t:<id> hash, :errors list, base:wakeup:*,
--         :queues, :unfinished_flows zsets, base:paused hash, base:sequence, :reply:<op>, :unique:<digest> strings,
--         base:flow:<flow> hash
-- Returns {n, m, k}: n retried, m looked at, k stayed, since another task has their unique key
-- Cost: O(m log n)
local base = KEYS[1]
local queue = ARGV[1]
local up_to_ms = ARGV[2]
local limit = ARGV[3]
local op = ARGV[4]
local skip = ARGV[5]
-- @include group_placement
-- @include times
-- @include idempotency
-- @include selection
-- @lazy unique: reacquire_key
-- @lazy flow: parse_ref, node, is_in_state, set_ttl, hold, is_callback

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end

-- Return the followers of a task that failed because of it, and count it as not failed. None if it may fail.
local function failed_followers(key, number, id)
  if redis.call("HGET", task_key(ctx, id), F.on_failure) ~= "ignore" then
    redis.call("HINCRBY", key, FLOW.failed, -1)
  end
  local _, followers = flow().node(key, number)
  return redis.call("HEXISTS", key, FLOW.failure .. id) == 1 and "" or followers
end

-- Count a retried task as unfinished. The on_success task of its flow waits again.
local function revive_flow(key, flow_ref)
  redis.call("HINCRBY", key, FLOW.revision, 1)
  if redis.call("HINCRBY", key, FLOW.unfinished, 1) == 1 then
    redis.call("PERSIST", key)
    redis.call("ZADD", base_key(ctx, K.unfinished_flows), ctx.now_ms, string.match(flow_ref, "^(.+)/"))
    flow().set_ttl(ctx, key, nil)
  end
  local number = redis.call("HGET", key, FLOW.on_success)
  local id = number and flow().node(key, number)
  if id and redis.call("PERSIST", task_key(ctx, id)) == 1 then
    flow().hold(ctx, number, id)
  end
end

-- Let the tasks wait again that failed only because of this one.
local function revive_followers(flow_ref, root)
  local flows = flow()
  local key, number = flows.parse_ref(ctx, flow_ref)
  if not flows.node(key, number) then
    return
  end
  local tasks = redis.call("HGET", key, FLOW.tasks)
  revive_flow(key, flow_ref)
  if flows.is_callback(number, tasks) then
    return
  end
  local revived = { failed_followers(key, number, root) }
  while #revived > 0 do
    for follower in string.gmatch(table.remove(revived), "%d+") do
      local after = flows.node(key, follower)
      local failed_parents = redis.call("HINCRBY", key, FLOW.failed_parents .. follower, -1)
      if failed_parents == 0 and flows.is_in_state(ctx, after, S.failed) then
        redis.call("HSET", task_key(ctx, after), F.state, S.waiting)
        redis.call("HDEL", task_key(ctx, after), F.finished_at_us)
        redis.call("PERSIST", task_key(ctx, after))
        flows.hold(ctx, follower, after)
        redis.call("HINCRBY", key, FLOW.unfinished, 1)
        revived[#revived + 1] = failed_followers(key, follower, after)
      end
    end
  end
end

local function retry(id, priority, flow_ref)
  local record = task_key(ctx, id)
  redis.call("HDEL", record, F.finished_at_us, F.attempts, F.deliveries, F.due_at_ms, F.lease, F.cancel_request)
  redis.call("PERSIST", record)
  if not priority then
    requeue_behind(ctx, id, queue, P.ready)
  elseif not place_in_group(ctx, id, queue) then
    redis.call("HSET", record, F.state, S.ready)
    push_priority(ctx, queue, id, priority)
  end
  if flow_ref then
    revive_followers(flow_ref, id)
  end
end

local failed = queue_key(ctx, queue, P.failed)
local ids = select_ids(ctx, queue, P.failed, up_to_ms, skip, limit, ARGV, 6)
local retried, stayed = 0, 0
for _, id in ipairs(ids) do
  local state, priority, claim, flow_ref = unpack(redis.call("HMGET", task_key(ctx, id),
    F.state, F.priority, F.unique_claim, F.flow_ref))
  local is_selected = is_until(redis.call("ZSCORE", failed, id), up_to_ms)
  local is_failed = is_selected and state == S.failed
  if is_failed and claim and unique().reacquire_key(ctx, id, claim) then
    stayed = stayed + 1
  elseif is_selected and redis.call("ZREM", failed, id) == 1 and is_failed then
    retry(id, priority, flow_ref)
    retried = retried + 1
  end
end
if retried > 0 then
  notify_queue(ctx, queue)
end
return reply(ctx, op, { retried, #ids, stayed })
