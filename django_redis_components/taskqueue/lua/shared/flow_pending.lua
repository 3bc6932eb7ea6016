-- What happens to the followers of a task that has very many is done in steps, by the poller. What is left is a list for each flow,
-- of "kind number chunk finished why": kind is s (the task has succeeded), f (it cannot succeed) or r (it is retried), finished
-- how many tasks the last step counts as finished, why the JSON of an error. What is left for one task is done in order.
-- @include flow_followers
-- @include flow_work

-- Followers that one script starts, fails or lets wait again, about.
local MAX_FOLLOWERS = 100

-- Leave to steps what happens to the followers of a task.
local function leave_to_steps(ctx, key, kind, number, finished, why)
  local flow_id = string.sub(key, #base_key(ctx, K.flow, "") + 1)
  local is_first = redis.call("HINCRBY", key, FLOW.steps .. number, 1) == 1
  redis.call(is_first and "LPUSH" or "RPUSH", base_key(ctx, K.flow_steps, flow_id),
    string.format("%s %s 0 %d %s", kind, number, finished, why or ""))
  if ctx.flow_left ~= flow_id then -- once in a call, for a task that leaves one to steps for each of its followers
    ctx.flow_left = flow_id
    redis.call("HINCRBY", key, FLOW.revision, 1)
    list_work(ctx, flow_id)
    notify(ctx, "poller")
  end
end

-- Return whether what happens to the followers of a task is left to steps: they are too many, or it comes after earlier steps.
local function must_leave(key, task, room)
  if task.followers == "" or task.is_step then
    return false
  elseif task.has_steps == nil then
    task.has_steps = redis.call("HEXISTS", key, FLOW.steps .. task.number) == 1
  end
  return task.followers == MANY or room <= 0 or task.has_steps
end
