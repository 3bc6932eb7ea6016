-- What happens to the followers of a task in steps, and the retry and deletion of a task. Part of flow.lua.
-- @include flow

-- Followers of one failed task that are deleted with it at most; the others have a TTL.
local MAX_DELETED = 100

-- Return the followers of a retried task that failed because of it, and count it as not failed. None if it may fail.
local function followers_of_retried(ctx, key, number, id)
  if is_counted(unpack(redis.call("HMGET", task_key(ctx, id), F.on_failure, F.failure_uncounted))) then
    redis.call("HINCRBY", key, FLOW.failed, -1)
  end
  local _, followers = node(key, number)
  return redis.call("HEXISTS", key, FLOW.failure .. id) == 1 and "" or followers
end

-- Let a task wait again that failed only because of its parents, of which one is retried. Return its id if it does.
local function revive_follower(ctx, key, follower)
  local id = node(key, follower)
  local failed_parents = redis.call("HINCRBY", key, FLOW.failed_parents .. follower, -1)
  if failed_parents ~= 0 or not is_in_state(ctx, id, S.failed) then
    return nil
  end
  redis.call("HSET", task_key(ctx, id), F.state, S.waiting)
  redis.call("HDEL", task_key(ctx, id), F.finished_at_us)
  redis.call("PERSIST", task_key(ctx, id))
  hold(ctx, follower, id)
  return id
end

-- Let the followers of retried tasks wait again.
local function revive(ctx, key, retried)
  local room, revived = ctx.step_room or MAX_FOLLOWERS, 0
  while #retried > 0 do
    local task = table.remove(retried)
    if must_leave(key, task, room) then
      leave_to_steps(ctx, key, "r", task.number, 0)
    else
      for follower in string.gmatch(task.followers, "%d+") do
        local id = revive_follower(ctx, key, follower)
        room = room - 1
        if id then
          revived = revived + 1
          retried[#retried + 1] = { number = follower, followers = followers_of_retried(ctx, key, follower, id) }
        end
      end
    end
  end
  ctx.step_room = ctx.step_room and room
  if revived > 0 then
    redis.call("HINCRBY", key, FLOW.revision, 1)
    redis.call("HINCRBY", key, FLOW.unfinished, revived)
  end
end

-- Count a retried task as unfinished. The on_success task of its flow waits again.
local function revive_flow(ctx, key, flow_ref)
  redis.call("HINCRBY", key, FLOW.revision, 1)
  if redis.call("HINCRBY", key, FLOW.unfinished, 1) == 1 then
    redis.call("PERSIST", key)
    redis.call("ZADD", base_key(ctx, K.unfinished_flows), ctx.now_ms, string.match(flow_ref, "^(.+)/"))
    set_ttl(ctx, key, nil)
  end
  local number = redis.call("HGET", key, FLOW.on_success)
  local id = number and node(key, number)
  if id and redis.call("PERSIST", task_key(ctx, id)) == 1 then
    hold(ctx, number, id)
  end
end

-- Let the tasks wait again that failed only because of a task that is retried.
local function revive_followers(ctx, flow_ref, id)
  local key, number = parse_ref(ctx, flow_ref)
  if not node(key, number) then
    return
  end
  local tasks = redis.call("HGET", key, FLOW.tasks)
  revive_flow(ctx, key, flow_ref)
  if not is_callback(number, tasks) then
    revive(ctx, key, { { number = number, followers = followers_of_retried(ctx, key, number, id) } })
  end
end

-- Delete the tasks that have failed because of one that is deleted, and cannot be retried any more without it.
local function delete_failed_followers(ctx, flow_ref)
  local key, number = parse_ref(ctx, flow_ref)
  local parents, budget = { number }, MAX_DELETED
  while #parents > 0 and budget > 0 do
    local parent = table.remove(parents)
    local id, followers = node(key, parent)
    local was_tolerated = redis.call("HEXISTS", key, FLOW.failure .. (id or "")) == 1
    for follower in string.gmatch(not was_tolerated and join_chunks(key, parent, followers, 1) or "", "%d+") do
      local after = node(key, follower)
      if budget > 0 and after and is_in_state(ctx, after, S.failed) then
        redis.call("UNLINK", task_key(ctx, after), task_key(ctx, after) .. ":errors")
        parents[#parents + 1] = follower
        budget = budget - 1
      end
    end
  end
end

-- Count the success of a task whose followers wait for it and what was added as for one task. Return whether others of these
-- have not succeeded.
local function waits_for_added(key, number)
  local open = FLOW.open_members .. number_of_chunks(key, number)
  if redis.call("HEXISTS", key, open) == 0 then
    redis.call("HSET", key, open, 0)
    return false
  end
  return redis.call("HINCRBY", key, open, -1) > 0
end

-- Do what is left for the followers of a task, or for a chunk of them.
local function step_task(ctx, key, steps, left)
  local kind, number, chunk, finished, why = string.match(left, "^(%a) (%d+) (%d+) (%d+) (.*)$")
  local id, followers = node(key, number)
  if not id then -- the flow was evicted
    return
  end
  local some, is_left = "", false
  if not (kind == "s" and chunk == "0" and followers == MANY and waits_for_added(key, number)) then
    some, is_left = read_chunk(key, number, followers, tonumber(chunk))
  end
  if is_left then -- in front: what follows the tasks of this chunk is done before the next one
    redis.call("LPUSH", steps, string.format("%s %s %d %s %s", kind, number, chunk + 1, finished, why))
    finished = 0
  elseif redis.call("HINCRBY", key, FLOW.steps .. number, -1) <= 0 then
    redis.call("HDEL", key, FLOW.steps .. number)
  end
  local task = { number = number, followers = some, not_run = kind == "f" and why or nil, is_step = true }
  if kind == "r" then
    revive(ctx, key, { task })
  else
    advance(ctx, key, { task }, tonumber(finished))
  end
end

-- Do a step of what is left for the followers of tasks. Return false if nothing was left.
local function step_followers(ctx, flow_id)
  local key, steps = base_key(ctx, K.flow, flow_id), base_key(ctx, K.flow_steps, flow_id)
  ctx.step_room = MAX_FOLLOWERS
  local is_done
  repeat
    local left = redis.call("LPOP", steps)
    if left then
      step_task(ctx, key, steps, left)
      is_done = true
    end
    ctx.step_room = ctx.step_room - 1
  until not left or ctx.step_room <= 0
  ctx.step_room = nil
  return is_done
end

-- Do a step of the work that a flow has left. Return whether more of it is left.
local function do_step(ctx, flow_id)
  if step_followers(ctx, flow_id) then
    list_work(ctx, flow_id) -- behind the other flows
    return true
  end
  return continue_flow(ctx, flow_id)
end
