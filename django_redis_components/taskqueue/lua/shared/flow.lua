-- Flows: tasks that wait for other tasks. A flow's hash has for each number the task's id and the numbers of its
-- followers, and the fields of `FlowField`. Records of successful tasks get no TTL before the flow has finished:
-- followers read the results there.
-- @include group_placement
-- @include times
-- @lazy counters: count
-- @lazy results: add_error, notify_waiters

-- Followers of one failed task that are deleted with it at most; the others have a TTL.
local MAX_DELETED = 100

-- Return the flow's key and the task's number, from "flow/number".
local function parse_ref(ctx, flow_ref)
  local flow_id, number = string.match(flow_ref, "^(.+)/(%d+)$")
  return base_key(ctx, K.flow, flow_id), number
end

-- Return the id of a task of the flow, and the numbers of its followers.
local function node(key, number)
  return string.match(redis.call("HGET", key, number) or "", "^(%S+) ?(.*)$")
end

local function is_in_state(ctx, id, state)
  return redis.call("HGET", task_key(ctx, id), F.state) == state
end

-- Run a command on the record of each successful task. The on_error task comes after all others.
local function each_successful(ctx, key, command, ...)
  for number = 0, tonumber(redis.call("HGET", key, FLOW.tasks)) do
    local id = node(key, number)
    if id and is_in_state(ctx, id, S.successful) then
      redis.call(command, task_key(ctx, id), ...)
    end
  end
end

-- List a task as waiting, by the time of acceptance and in the order of the flow.
local function hold(ctx, number, id)
  local queue, enqueued_us = unpack(redis.call("HMGET", task_key(ctx, id), F.queue, F.enqueued_at_us))
  index_queue(ctx, queue)
  redis.call("ZADD", queue_key(ctx, queue, P.waiting), enqueued_us + number, id)
end

-- Put a task that has waited for others into its queue.
local function start(ctx, key, number, id)
  local record = task_key(ctx, id)
  local queue, priority = unpack(redis.call("HMGET", record, F.queue, F.priority))
  redis.call("ZREM", queue_key(ctx, queue, P.waiting), id)
  local due, expires = unpack(redis.call("HMGET", key, FLOW.due .. number, FLOW.expires .. number))
  local due_ms = due and parse_due(due, ctx.now_us) or 0
  if expires then
    redis.call("HSET", record, F.expiry, parse_expiry(expires, ctx.now_us, due_ms))
  end
  index_queue(ctx, queue)
  if due_ms > ctx.now_ms then
    redis.call("HSET", record, F.state, S.scheduled, F.due_at_ms, due_ms)
    schedule(ctx, queue, id, due_ms)
    return
  end
  redis.call("HSET", record, F.state, S.ready, F.placed_at_us, ctx.now_us)
  if not priority then
    requeue_behind(ctx, id, queue, P.ready)
  elseif not place_in_group(ctx, id, queue) then
    push_priority(ctx, queue, id, priority)
  end
  notify_queue(ctx, queue)
end

-- Count a finished task. The last one starts the TTL of the flow and its results, and deletes an unused on_error task.
local function count_finished(ctx, key)
  if redis.call("HINCRBY", key, FLOW.unfinished, -1) > 0 then
    return
  end
  local has_failed, ttl_ms, failed_ttl_ms, on_error = unpack(redis.call("HMGET", key,
    FLOW.has_failed, FLOW.ttl_ms, FLOW.failed_ttl_ms, FLOW.on_error))
  if on_error then
    local id = node(key, on_error)
    local queue = redis.call("HGET", task_key(ctx, id), F.queue) or ""
    redis.call("ZREM", queue_key(ctx, queue, P.waiting), id)
    redis.call("DEL", task_key(ctx, id))
  end
  local life_ms = has_failed and failed_ttl_ms or ttl_ms
  each_successful(ctx, key, "PEXPIRE", life_ms)
  redis.call("PEXPIRE", key, life_ms)
  redis.call("ZREM", base_key(ctx, K.unfinished_flows), string.sub(key, #base_key(ctx, K.flow, "") + 1))
end

local function start_on_error(ctx, key, first_error)
  local number = redis.call("HGET", key, FLOW.on_error)
  if not number then
    return
  end
  redis.call("HDEL", key, FLOW.on_error)
  local id = node(key, number)
  if is_in_state(ctx, id, S.waiting) then
    redis.call("HINCRBY", key, FLOW.unfinished, 1)
    redis.call("HSET", key, FLOW.first_error, first_error)
    start(ctx, key, number, id)
  end
end

-- Return the JSON of the error of a task that is not run. The text has no characters that JSON escapes.
local function not_run_error(why)
  return '{"exception_class_path":"' .. E.parent_failed .. '","message":"Not run: ' .. why .. '.","traceback":""}'
end

-- Fail a task that waits for one which cannot succeed any more.
local function fail_waiting(ctx, id, queue, name, waiters, error_json, ttl_ms)
  local record = task_key(ctx, id)
  redis.call("ZREM", queue_key(ctx, queue, P.waiting), id)
  redis.call("HSET", record, F.state, S.failed, F.finished_at_us, ctx.now_us)
  redis.call("PEXPIRE", record, ttl_ms)
  results().add_error(ctx, id, error_json, ttl_ms)
  results().notify_waiters(ctx, id, waiters)
  counters().count(ctx, queue, name, O.failed)
end

-- Fail all tasks that come after one which cannot succeed any more; `reason`: failed, was cancelled, …
local function fail_followers(ctx, id, flow_ref, reason)
  local key, number = parse_ref(ctx, flow_ref)
  if not node(key, number) then
    return
  end
  if redis.call("HGET", key, FLOW.on_error) == number then
    redis.call("HDEL", key, FLOW.on_error) -- the on_error task itself, before any failure: no task waits for it
    return
  end
  local name = string.gsub(redis.call("HGET", task_key(ctx, id), F.task_name) or "?", '["\\%c]', "?")
  redis.call("HSET", key, FLOW.open_parents .. number, -1) -- its parents may still succeed: never start or fail it again
  local ttl_ms = redis.call("HGET", key, FLOW.failed_ttl_ms)
  redis.call("PEXPIRE", task_key(ctx, id), ttl_ms)
  redis.call("HSET", key, FLOW.has_failed, 1)
  start_on_error(ctx, key, id .. " " .. name .. " " .. reason)
  local error_json = not_run_error(string.format("task %s (%s), on which it depends, %s", id, name, reason))
  local failed = { number }
  while #failed > 0 do
    local _, followers = node(key, table.remove(failed))
    for follower in string.gmatch(followers, "%d+") do
      redis.call("HINCRBY", key, FLOW.failed_parents .. follower, 1)
      local after = node(key, follower)
      local state, waiters, queue, task_name = unpack(redis.call("HMGET", task_key(ctx, after),
        F.state, F.waiters, F.queue, F.task_name))
      if state == S.waiting then
        fail_waiting(ctx, after, queue, task_name, waiters, error_json, ttl_ms)
        count_finished(ctx, key)
        failed[#failed + 1] = follower
      end
    end
  end
  count_finished(ctx, key)
end

-- Delete the tasks that have failed because of one that is deleted, and cannot be retried any more without it.
local function delete_failed_followers(ctx, flow_ref)
  local key, number = parse_ref(ctx, flow_ref)
  local parents, budget = { number }, MAX_DELETED
  while #parents > 0 and budget > 0 do
    local _, followers = node(key, table.remove(parents))
    for follower in string.gmatch(followers or "", "%d+") do
      local after = node(key, follower)
      if budget > 0 and after and is_in_state(ctx, after, S.failed) then
        redis.call("UNLINK", task_key(ctx, after), task_key(ctx, after) .. ":errors")
        parents[#parents + 1] = follower
        budget = budget - 1
      end
    end
  end
end

-- Start the followers of a successful task that wait for no other.
local function task_succeeded(ctx, id, flow_ref)
  local key, number = parse_ref(ctx, flow_ref)
  local _, followers = node(key, number)
  if not followers then
    return
  end
  redis.call("PERSIST", task_key(ctx, id))
  for follower in string.gmatch(followers, "%d+") do
    if redis.call("HINCRBY", key, FLOW.open_parents .. follower, -1) == 0 then
      local after = node(key, follower)
      if is_in_state(ctx, after, S.waiting) then
        start(ctx, key, follower, after)
      elseif redis.call("EXISTS", task_key(ctx, after)) == 0 then
        fail_followers(ctx, after, string.match(flow_ref, "^.+/") .. follower, "was deleted")
      end
    end
  end
  count_finished(ctx, key)
end
