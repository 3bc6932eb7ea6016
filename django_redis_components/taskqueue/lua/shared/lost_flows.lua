-- Flows that would wait for ever, since the record of a task or the flow itself was evicted or deleted: their tasks fail.
-- @include context
-- @lazy flow: parse_ref, node, last_number, fail_followers, fail_waiting, not_run_error

-- Tasks of flows that one call examines, about: a flow has 5,000 at most.
local MAX_EXAMINED = 10000
local UNFINISHED = {
  [S.waiting] = true, [S.ready] = true, [S.scheduled] = true, [S.running] = true, [S.retrying] = true,
  [S.unregistered] = true,
}

-- Return how many tasks of a flow with records have not finished, and of those without a record {id, number}: the ones
-- that may have been lost before they finished, and the ones that had failed or did not run.
local function examine(ctx, key, tasks)
  local unfinished, lost, failed = 0, {}, {}
  local waiting = {} -- callbacks that have not been started: not counted
  for _, number in ipairs(redis.call("HMGET", key, FLOW.on_error, FLOW.on_complete, FLOW.on_success)) do
    waiting[tonumber(number) or -1] = true
  end
  local has_failed_once = redis.call("HEXISTS", key, FLOW.first_error) == 1
  for number = 0, flow().last_number(key) do
    local id = not waiting[number] and (number ~= tasks or has_failed_once) and flow().node(key, number)
    local state = id and redis.call("HGET", task_key(ctx, id), F.state)
    if UNFINISHED[state] then
      unfinished = unfinished + 1
    elseif id and not state then
      local open, failed_parents = unpack(redis.call("HMGET", key, FLOW.open_parents .. number,
        FLOW.failed_parents .. number))
      local has_failed = open == "-1" or tonumber(failed_parents or 0) > 0
      local listed = has_failed and failed or lost
      listed[#listed + 1] = { id, number }
    end
  end
  return unfinished, lost, failed
end

-- Fail the tasks that wait for tasks without a record, and count these as finished.
local function fail_dependents(ctx, key, flow_id, unfinished, missing)
  redis.call("HSET", key, FLOW.unfinished, unfinished + #missing)
  for _, task in ipairs(missing) do
    flow().fail_followers(ctx, task[1], flow_id .. "/" .. task[2], "was evicted or deleted")
  end
end

local function fail_without_flow(ctx, id, ttl_ms)
  local queue, name, waiters = unpack(redis.call("HMGET", task_key(ctx, id), F.queue, F.task_name, F.waiters))
  local error_json = flow().not_run_error("its flow was evicted or deleted")
  flow().fail_waiting(ctx, id, queue, name, waiters, error_json, ttl_ms)
end

local function check_tasks(ctx, key, flow_id, tasks, counted)
  ctx.examined[key] = true
  ctx.examined.count = ctx.examined.count + tasks
  local unfinished, lost, failed = examine(ctx, key, tonumber(tasks))
  if tonumber(counted) > unfinished then
    fail_dependents(ctx, key, flow_id, unfinished, #lost > 0 and lost or failed)
  end
end

-- Fail a waiting task if its flow cannot go on. Each flow is examined once in a call.
local function check_flow(ctx, id, flow_ref, ttl_ms)
  local key = flow().parse_ref(ctx, flow_ref)
  ctx.examined = ctx.examined or { count = 0 }
  if ctx.examined[key] or ctx.examined.count >= MAX_EXAMINED then
    return
  end
  local tasks, counted = unpack(redis.call("HMGET", key, FLOW.tasks, FLOW.unfinished))
  if not tasks then
    fail_without_flow(ctx, id, ttl_ms)
    return
  end
  check_tasks(ctx, key, string.match(flow_ref, "^(.+)/"), tasks, counted)
end

-- Finish a flow that has lost all of its unfinished tasks: none waits, so `check_flow` does not find it.
local function check_unfinished(ctx, flow_id)
  local key = base_key(ctx, K.flow, flow_id)
  ctx.examined = ctx.examined or { count = 0 }
  local tasks, counted = unpack(redis.call("HMGET", key, FLOW.tasks, FLOW.unfinished))
  if not tasks then
    redis.call("ZREM", base_key(ctx, K.unfinished_flows), flow_id)
  elseif not ctx.examined[key] and ctx.examined.count < MAX_EXAMINED then
    check_tasks(ctx, key, flow_id, tasks, counted)
  end
end
