-- Work on each task of a flow: to start those that wait for no other, to change the TTL of all results, to delete a flow
-- that was not sent completely. A large flow is worked on in steps, so that no script blocks the server for long: the first
-- one at once, the others by the poller, or by the client that has sent the flow.
-- @include flow_tasks

-- Tasks of one step: a step takes up to 5 ms.
local STEP = 300

local function last_number(key)
  local tasks, added = unpack(redis.call("HMGET", key, FLOW.tasks, FLOW.added))
  return (tasks or 0) + 2 + (added or 0)
end

local function list_work(ctx, flow_id)
  redis.call("ZADD", base_key(ctx, K.flow_work), ctx.now_ms, flow_id)
end

-- Start a task, or list it as waiting. It may have been cancelled, or started by the end of its parents, since it was sent.
local function begin(ctx, key, tasks, number)
  local id = node(key, number)
  if not id or not is_in_state(ctx, id, S.waiting) then
    return
  end
  if is_callback(number, tasks) or redis.call("HEXISTS", key, FLOW.open_parents .. number) == 1 then
    hold(ctx, number, id)
  else
    start(ctx, key, number, id)
  end
end

-- Begin tasks from a number on to another one; return the number of the first one that is left, or nil.
local function begin_step(ctx, key, tasks, first, all)
  local last = math.min(first + STEP - 1, all)
  for number = first, last do
    begin(ctx, key, tasks, number)
  end
  return last < all and last + 1 or nil
end

-- Start the tasks of a flow that was accepted, or the first ones of it.
local function begin_flow(ctx, key, flow_id, tasks)
  local left = begin_step(ctx, key, tasks, 0, tasks + 2)
  if left then
    redis.call("HSET", key, FLOW.starting, left)
    list_work(ctx, flow_id)
  end
end

-- Run a command on the records of successful tasks, also of callbacks.
local function change_successful(ctx, key, first, last, command, ...)
  for number = first, last do
    local id = node(key, number)
    if id and is_in_state(ctx, id, S.successful) then
      redis.call(command, task_key(ctx, id), ...)
    end
  end
end

-- Give the results of a flow and the flow a TTL; nil: none. What an earlier call has not done yet is not done any more.
local function set_ttl(ctx, key, ttl_ms)
  local last = last_number(key)
  if last < STEP and not ttl_ms then
    change_successful(ctx, key, 0, last, "PERSIST")
  elseif last < STEP then
    change_successful(ctx, key, 0, last, "PEXPIRE", ttl_ms)
    redis.call("PEXPIRE", key, ttl_ms)
  else
    redis.call("HSET", key, FLOW.sweep, "0 " .. (ttl_ms or "none"))
    list_work(ctx, string.sub(key, #base_key(ctx, K.flow, "") + 1))
  end
end

-- Do a step of a change of TTL; return whether more is left.
local function sweep_step(ctx, key, first, ttl_ms)
  local all = last_number(key)
  local last = math.min(first + STEP - 1, all)
  if ttl_ms == "none" then
    change_successful(ctx, key, first, last, "PERSIST")
  else
    change_successful(ctx, key, first, last, "PEXPIRE", ttl_ms)
  end
  if last < all then
    redis.call("HSET", key, FLOW.sweep, last + 1 .. " " .. ttl_ms)
    return true
  end
  redis.call("HDEL", key, FLOW.sweep)
  if ttl_ms ~= "none" then
    redis.call("PEXPIRE", key, ttl_ms)
  end
  return false
end

-- Delete tasks of a flow that was not sent completely: their numbers have no gap. Return whether more is left.
local function delete_step(ctx, key, first)
  for number = first, first + STEP - 1 do
    local id = node(key, number)
    if not id then
      redis.call("UNLINK", key)
      return false
    end
    redis.call("UNLINK", task_key(ctx, id))
  end
  redis.call("HSET", key, FLOW.sweep, first + STEP .. " delete")
  return true
end

-- Begin tasks of a flow that was accepted, or tasks that were added to it: `field` has the number of the first one.
local function start_step(ctx, key, field, first)
  local tasks = tonumber(redis.call("HGET", key, FLOW.tasks))
  local left = begin_step(ctx, key, tasks, first, field == FLOW.starting and tasks + 2 or last_number(key))
  if left then
    redis.call("HSET", key, field, left)
  else
    redis.call("HDEL", key, field)
  end
  return left ~= nil
end

local function step(ctx, key, starting, starting_added, sweep)
  if starting then
    return start_step(ctx, key, FLOW.starting, tonumber(starting)) or starting_added ~= false or sweep ~= false
  elseif starting_added then
    return start_step(ctx, key, FLOW.starting_added, tonumber(starting_added)) or sweep ~= false
  elseif not sweep then
    return false
  end
  local first, what = string.match(sweep, "^(%d+) (%w+)$")
  if what == "delete" then
    return delete_step(ctx, key, tonumber(first))
  end
  return sweep_step(ctx, key, tonumber(first), what)
end

-- Do a step of the work that a flow has left. Return whether more of it is left.
local function continue_flow(ctx, flow_id)
  local key = base_key(ctx, K.flow, flow_id)
  local starting, starting_added, sweep, search = unpack(redis.call("HMGET", key, FLOW.starting, FLOW.starting_added,
    FLOW.sweep, FLOW.search))
  local is_left = step(ctx, key, starting, starting_added, sweep)
  if is_left or search then
    list_work(ctx, flow_id) -- behind the other flows
  else
    redis.call("ZREM", base_key(ctx, K.flow_work), flow_id)
  end
  return is_left
end

-- Have the flows deleted of which only parts were sent, too long ago.
local function delete_partial_flows(ctx)
  local partial = base_key(ctx, K.partial_flows)
  for _, flow_id in ipairs(redis.call("ZRANGEBYSCORE", partial, "-inf", ctx.now_ms - T.partial_flow_ms, "LIMIT", 0, 20)) do
    redis.call("ZREM", partial, flow_id)
    redis.call("HSET", base_key(ctx, K.flow, flow_id), FLOW.sweep, "0 delete")
    list_work(ctx, flow_id)
  end
end
