-- Flows that would wait for ever, since the record of a task or the flow itself was evicted or deleted: their tasks fail.
-- A large flow is searched in steps, one in each round of the poller.
-- @include context
-- @lazy flow: parse_ref, node, last_number, list_work, flow_steps, fail_followers, fail_waiting, not_run_error, count_finished

-- Tasks of flows that one call examines, about.
local MAX_EXAMINED = 10000
-- Tasks that one step of a search examines, and of which one step fails what depends on them.
local SEARCH_STEP, FAIL_STEP = 500, 100
local UNFINISHED = {
  [S.waiting] = true, [S.ready] = true, [S.scheduled] = true, [S.running] = true, [S.retrying] = true,
  [S.unregistered] = true,
}

-- Return how many of these tasks of a flow have records and have not finished, and of those without a record {id, number}:
-- the ones that may have been lost before they finished, and the ones that had failed or did not run.
local function examine(ctx, key, tasks, first, last)
  local unfinished, lost, failed = 0, {}, {}
  local waiting = {} -- callbacks that have not been started: not counted
  for _, number in ipairs(redis.call("HMGET", key, FLOW.on_error, FLOW.on_complete, FLOW.on_success)) do
    waiting[tonumber(number) or -1] = true
  end
  local has_failed_once = redis.call("HEXISTS", key, FLOW.first_error) == 1
  for number = first, last do
    local id = not waiting[number] and (number ~= tasks or has_failed_once) and flow().node(key, number)
    local state = id and redis.call("HGET", task_key(ctx, id), F.state)
    if UNFINISHED[state] then
      unfinished = unfinished + 1
    elseif id and not state then
      local open, failed_parents = unpack(redis.call("HMGET", key, FLOW.open_parents .. number,
        FLOW.failed_parents .. number))
      local has_failed = tonumber(open or 0) < 0 or tonumber(failed_parents or 0) > 0
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

-- Return whether steps are left for followers of tasks: the count may be behind.
local function has_steps_left(ctx, flow_id)
  return redis.call("EXISTS", base_key(ctx, K.flow_steps, flow_id)) == 1
end

local function check_tasks(ctx, key, flow_id, tasks, counted)
  local last = flow().last_number(key)
  ctx.examined[key] = true
  if has_steps_left(ctx, flow_id) then
    flow().list_work(ctx, flow_id) -- a poller that does not know steps has taken it out of the list
    return
  end
  if last >= SEARCH_STEP then
    redis.call("HSETNX", key, FLOW.search, "0 0 " .. (redis.call("HGET", key, FLOW.revision) or 0))
    flow().list_work(ctx, flow_id)
    return
  end
  ctx.examined.count = ctx.examined.count + last
  local unfinished, lost, failed = examine(ctx, key, tonumber(tasks), 0, last)
  if tonumber(counted) > unfinished then
    fail_dependents(ctx, key, flow_id, unfinished, #lost > 0 and lost or failed)
  end
end

-- Add up the tasks that have not finished. A task can finish during the search, but none that has finished counts again
-- without a new revision: what is counted beyond the sum was lost. Return the state of the search; nil at its end.
local function sum_step(ctx, key, tasks, counted, first, seen, revision)
  local all, now = flow().last_number(key), redis.call("HGET", key, FLOW.revision) or "0"
  if now ~= revision then
    return "0 0 " .. now
  end
  local last = math.min(first + SEARCH_STEP - 1, all)
  seen = seen + examine(ctx, key, tasks, first, last)
  if last < all then
    return last + 1 .. " " .. seen .. " " .. revision
  end
  return counted > seen and "0 " .. counted - seen .. " fail" or nil
end

-- Fail the tasks that wait for lost ones. What the lost ones were counted as is corrected at the end.
local function fail_step(ctx, key, flow_id, tasks, first, excess)
  local all = flow().last_number(key)
  local last = math.min(first + FAIL_STEP - 1, all)
  local _, lost = examine(ctx, key, tasks, first, last)
  for _, task in ipairs(lost) do
    redis.call("HINCRBY", key, FLOW.unfinished, 1)
    flow().fail_followers(ctx, task[1], flow_id .. "/" .. task[2], "was evicted or deleted")
  end
  if last < all then
    return last + 1 .. " " .. excess .. " fail"
  end
  flow().count_finished(ctx, key, excess)
  return nil
end

-- Do a step of the search in a large flow.
local function continue_search(ctx, flow_id)
  local key = base_key(ctx, K.flow, flow_id)
  local search, tasks, counted = unpack(redis.call("HMGET", key, FLOW.search, FLOW.tasks, FLOW.unfinished))
  if not search or has_steps_left(ctx, flow_id) then
    return
  end
  local first, number, what = string.match(search, "^(%d+) (%d+) (%w+)$")
  tasks, counted, first, number = tonumber(tasks), tonumber(counted), tonumber(first), tonumber(number)
  local left
  if what == "fail" then
    left = fail_step(ctx, key, flow_id, tasks, first, number)
  else
    left = sum_step(ctx, key, tasks, counted, first, number, what)
  end
  if left then
    redis.call("HSET", key, FLOW.search, left)
  else
    redis.call("HDEL", key, FLOW.search)
  end
end

-- Do a step of the work of the flow that has waited longest. Return whether more of it should follow at once: a search
-- takes its time.
local function continue_work(ctx)
  local flow_id = redis.call("ZRANGE", base_key(ctx, K.flow_work), 0, 0)[1]
  if not flow_id then
    return false
  end
  local is_left = flow().flow_steps().do_step(ctx, flow_id)
  if not is_left then
    continue_search(ctx, flow_id)
  end
  return is_left
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
