-- Counters of each task name by hour, of all queues together. The minutes of the queues have them for three hours.
-- @include context
-- @include counter_sets

-- Counter sets of minutes that one call adds up, and those of one more queue: at most 20 ms. In an hour it is enough for
-- 3000 names in all queues of a chunk that run in each minute; what is late gets more.
local BUDGET = 3000

-- Add an hour of a queue to the hours of its task names. Return how many counter sets it has added up.
local function add_queue(ctx, queue, hour)
  local names, sums, count = redis.call("HGETALL", queue_key(ctx, queue, P.task_names .. ":" .. hour)), {}, 0
  for minute = hour * 60, hour * 60 + 59 do
    local counters = redis.call("GET", queue_key(ctx, queue, P.minute .. ":" .. minute))
    for index = 2, counters and #names or 0, 2 do
      local first = (tonumber(names[index]) or 1000) * 416
      if first < #counters then
        sums[index] = sums[index] or new_sum()
        add_counters(sums[index], string.sub(counters, first + 1, first + 416))
        count = count + 1
      end
    end
  end
  for index, sum in pairs(sums) do
    local add = additions(sum)
    if add then
      add_to(base_key(ctx, K.class_hours, hour .. ":" .. names[index - 1]), "SAT", add, T.class_hours_ms)
    end
  end
  return count
end

-- Add the oldest hour that has ended and is not added yet, of these queues, the chunk that starts at rank `first`: some
-- queues in a call, each once. Both is noted by the call that adds them: a repeated call adds nothing again.
local function add_class_hours(ctx, queues, first)
  local mark = base_key(ctx, K.class_rollup, first > 0 and math.ceil(first / 500) or nil)
  local latest = math.floor(ctx.now_ms / 3600000)
  local hour = math.max(math.min(tonumber(redis.call("GET", mark) or 0), latest - 1), latest - 3) + 1
  if hour == latest then
    return
  end
  local added, budget = base_key(ctx, K.class_queues, hour), BUDGET * (latest - hour)
  for _, queue in ipairs(queues) do
    local has_names = redis.call("EXISTS", queue_key(ctx, queue, P.task_names .. ":" .. hour)) == 1
    if has_names and redis.call("SISMEMBER", added, queue) == 0 then
      if budget <= 0 then
        return
      end
      budget = budget - add_queue(ctx, queue, hour)
      redis.call("SADD", added, queue)
      redis.call("PEXPIRE", added, T.task_names_ms)
    end
  end
  redis.call("SET", mark, hour, "PX", T.class_hours_ms)
end
