-- Flows: tasks that wait for other tasks. A flow's hash has for each number the task's id and the numbers of its
-- followers, and the fields of `FlowField`. Records of successful tasks get no TTL before the flow has finished:
-- followers read the results there. Behind the numbers of the members come those of the callbacks, on_error, on_complete
-- and on_success, whether the flow has them or not.
-- @include flow_pending
-- @lazy counters: count
-- @lazy results: add_error, notify_waiters

-- Start a callback that waits, as a task that must finish before the flow does. Return whether it was started.
local function start_callback(ctx, key, field)
  local number = redis.call("HGET", key, field)
  if not number then
    return false
  end
  redis.call("HDEL", key, field)
  local id = node(key, number)
  if not is_in_state(ctx, id, S.waiting) then
    return false
  end
  redis.call("HINCRBY", key, FLOW.unfinished, 1)
  redis.call("HINCRBY", key, FLOW.revision, 1)
  redis.call("PERSIST", task_key(ctx, id))
  start(ctx, key, number, id)
  return true
end

-- Take the on_success task of a flow that has failed out of the index: a retry of what failed lets it wait again.
local function unlist_on_success(ctx, key, number, ttl_ms)
  local id = node(key, number)
  local queue = redis.call("HGET", task_key(ctx, id), F.queue) or ""
  redis.call("ZREM", queue_key(ctx, queue, P.waiting), id)
  redis.call("PEXPIRE", task_key(ctx, id), ttl_ms)
end

-- Delete an on_error task that was not needed.
local function delete_on_error(ctx, key, number)
  local id = node(key, number)
  local queue = redis.call("HGET", task_key(ctx, id), F.queue) or ""
  redis.call("ZREM", queue_key(ctx, queue, P.waiting), id)
  redis.call("DEL", task_key(ctx, id))
  redis.call("HDEL", key, FLOW.on_error)
end

-- Count finished tasks. After the last member the callbacks start; after these the TTL of the flow and its results does.
local function count_finished(ctx, key, finished)
  if redis.call("HINCRBY", key, FLOW.unfinished, -finished) > 0 then
    return
  end
  local has_failed, failed, ttl_ms, failed_ttl_ms, on_error, on_success = unpack(redis.call("HMGET", key,
    FLOW.has_failed, FLOW.failed, FLOW.ttl_ms, FLOW.failed_ttl_ms, FLOW.on_error, FLOW.on_success))
  if on_error then
    delete_on_error(ctx, key, on_error)
  end
  local is_started = start_callback(ctx, key, FLOW.on_complete)
  if on_success and tonumber(failed or 0) > 0 then
    unlist_on_success(ctx, key, on_success, failed_ttl_ms)
  elseif on_success then
    is_started = start_callback(ctx, key, FLOW.on_success) or is_started
  end
  if is_started then
    redis.call("HSET", key, FLOW.failed_at_end, failed or 0)
    return
  end
  set_ttl(ctx, key, has_failed and failed_ttl_ms or ttl_ms)
  redis.call("ZREM", base_key(ctx, K.unfinished_flows), string.sub(key, #base_key(ctx, K.flow, "") + 1))
end

-- Count a failure, and start the on_error task if it is the flow's first.
local function count_failure(ctx, key, first_error)
  redis.call("HSET", key, FLOW.has_failed, 1)
  redis.call("HINCRBY", key, FLOW.failed, 1)
  if start_callback(ctx, key, FLOW.on_error) then
    redis.call("HSET", key, FLOW.first_error, first_error)
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

-- Return the name of a task, without characters that JSON escapes.
local function plain_name(name)
  return (string.gsub(name or "?", '["\\%c]', "?"))
end

-- Return whether a failure of a task counts as one of its flow.
local function is_counted(on_failure, uncounted)
  return on_failure ~= "ignore" and not uncounted
end

-- Note that a task, of which the id, name, followers and on_failure are given, ended without success. Return it with what
-- happens to its followers: they stop waiting for it, once, if it may fail, and are not run otherwise.
local function end_failed(key, number, task, reason, not_run)
  if not task.on_failure then
    return { number = number, followers = task.followers, not_run = not_run }
  end
  local text = task.on_failure .. " " .. plain_name(task.name) .. " " .. reason
  local is_first = redis.call("HSETNX", key, FLOW.failure .. task.id, text) == 1
  return { number = number, followers = is_first and task.followers or "" }
end

-- Let a follower wait for one task less. Return its id if it should start, but was deleted.
local function wait_for_one_less(ctx, key, follower)
  if redis.call("HINCRBY", key, FLOW.open_parents .. follower, -1) ~= 0 then
    return nil
  end
  local id = node(key, follower)
  if is_in_state(ctx, id, S.waiting) then
    start(ctx, key, follower, id)
  elseif redis.call("EXISTS", task_key(ctx, id)) == 0 then
    return id
  end
end

-- Fail a follower that waits for a task which cannot succeed any more. Return as `end_failed` if it was waiting, and whether
-- its failure counts.
local function fail_follower(ctx, key, follower, error_json, ttl_ms)
  redis.call("HINCRBY", key, FLOW.failed_parents .. follower, 1)
  local id, followers = node(key, follower)
  local state, waiters, queue, name, on_failure, uncounted = unpack(redis.call("HMGET", task_key(ctx, id),
    F.state, F.waiters, F.queue, F.task_name, F.on_failure, F.failure_uncounted))
  if state ~= S.waiting then
    return nil
  end
  fail_waiting(ctx, id, queue, name, waiters, error_json, ttl_ms)
  local task = { id = id, name = name, followers = followers, on_failure = on_failure }
  return end_failed(key, follower, task, "was not run", error_json), is_counted(on_failure, uncounted)
end

-- Note that a task cannot succeed any more; `reason`: failed, was cancelled, … Return as `end_failed`.
local function fail_node(ctx, key, number, id, reason)
  local name, on_failure, uncounted = unpack(redis.call("HMGET", task_key(ctx, id), F.task_name, F.on_failure,
    F.failure_uncounted))
  redis.call("HSET", key, FLOW.open_parents .. number, -1) -- its parents may still succeed: never start or fail it again
  redis.call("PEXPIRE", task_key(ctx, id), redis.call("HGET", key, FLOW.failed_ttl_ms))
  if is_counted(on_failure, uncounted) then
    count_failure(ctx, key, id .. " " .. plain_name(name) .. " " .. reason)
  end
  local _, followers = node(key, number)
  local task = { id = id, name = name, followers = followers, on_failure = on_failure }
  local text = string.format("task %s (%s), on which it depends, %s", id, plain_name(name), reason)
  return end_failed(key, number, task, reason, not_run_error(text))
end

-- Fail the followers of a task that are still waiting, or let them wait for one task less. Append those that ended thereby to
-- `ends`; return how many followers there are, and how many ended.
local function advance_followers(ctx, key, task, ends)
  local ttl_ms = task.not_run and redis.call("HGET", key, FLOW.failed_ttl_ms)
  local count, ended, counted = 0, 0, 0
  for follower in string.gmatch(task.followers, "%d+") do
    local failed, counts, deleted
    if task.not_run then
      failed, counts = fail_follower(ctx, key, follower, task.not_run, ttl_ms)
    else
      deleted = wait_for_one_less(ctx, key, follower)
      failed = deleted and fail_node(ctx, key, follower, deleted, "was deleted")
    end
    if failed then
      ends[#ends + 1] = failed
    end
    count, ended, counted = count + 1, ended + (failed and 1 or 0), counted + (counts and 1 or 0)
  end
  if counted > 0 then
    redis.call("HINCRBY", key, FLOW.failed, counted)
  end
  return count, ended
end

-- Go through what comes after tasks that have ended, of which `ends` tells what happens to their followers. `finished`: how
-- many of these count as finished now.
local function advance(ctx, key, ends, finished)
  local room = ctx.step_room or MAX_FOLLOWERS
  while #ends > 0 do
    local ended = table.remove(ends)
    if must_leave(key, ended, room) then
      -- One that was retried counts when its followers wait again: else the flow could end before.
      local is_behind = #ends == 0 and finished == 1 and ended.has_steps
      finished = is_behind and 0 or finished
      leave_to_steps(ctx, key, ended.not_run and "f" or "s", ended.number, is_behind and 1 or 0, ended.not_run)
    else
      local count, ended_now = advance_followers(ctx, key, ended, ends)
      room, finished = room - count, finished + ended_now
    end
  end
  ctx.step_room = ctx.step_room and room
  if finished > 0 then
    count_finished(ctx, key, finished)
  end
end

-- Count a callback that ended, if it had been started.
local function end_callback(ctx, key, number)
  for _, field in ipairs({ FLOW.on_error, FLOW.on_complete, FLOW.on_success }) do
    if redis.call("HGET", key, field) == number then
      redis.call("HDEL", key, field)
      return
    end
  end
  count_finished(ctx, key, 1)
end

-- A task cannot succeed any more: its followers fail, or stop waiting for it if it may fail.
local function fail_followers(ctx, id, flow_ref, reason)
  local key, number = parse_ref(ctx, flow_ref)
  local line, tasks = unpack(redis.call("HMGET", key, number, FLOW.tasks))
  if line and is_callback(number, tasks) then
    end_callback(ctx, key, number)
  elseif line then
    advance(ctx, key, { fail_node(ctx, key, number, id, reason) }, 1)
  end
end

-- Start the followers of a successful task that wait for no other. They do not wait for one that had failed before and may
-- fail.
local function task_succeeded(ctx, id, flow_ref)
  local key, number = parse_ref(ctx, flow_ref)
  local line, tasks, failure, steps = unpack(redis.call("HMGET", key, number, FLOW.tasks, FLOW.failure .. id,
    FLOW.steps .. number))
  if not line then
    return
  end
  redis.call("PERSIST", task_key(ctx, id))
  if is_callback(number, tasks) then
    end_callback(ctx, key, number)
  else
    local followers = failure and "" or string.match(line, " (.*)$")
    advance(ctx, key, { { number = number, followers = followers, has_steps = steps } }, 1)
  end
end

-- @lazy flow_steps: do_step, revive_followers, delete_failed_followers
