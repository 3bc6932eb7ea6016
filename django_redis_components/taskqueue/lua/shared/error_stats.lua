-- Failures by fingerprint. A call collects them in ctx.errors by queue and fingerprint; `write_errors` writes them.
-- @include context

-- How many different errors a queue keeps, and for each: ids of tasks, and minutes.
local MAX_ERRORS, MAX_IDS, MAX_MINUTES = 100, 10, 60

-- Record one failure, also in the task's record: a scan selects the tasks of a group by it. `description`: JSON of
-- the fingerprint's parts; `is_final`: no further attempt follows.
local function record_error(ctx, queue, id, fingerprint, description, is_final, ttl_ms)
  redis.call("HSET", task_key(ctx, id), F.fingerprint, fingerprint)
  ctx.errors = ctx.errors or {}
  local of_queue = ctx.errors[queue] or {}
  ctx.errors[queue] = of_queue
  local group = of_queue[fingerprint] or { times = 0, final = 0, ids = {} }
  of_queue[fingerprint] = group
  group.times = group.times + 1
  group.final = group.final + (is_final and 1 or 0)
  group.description, group.ttl_ms = description, ttl_ms
  group.ids[#group.ids + 1] = id
end

-- Return the ids of tasks, newest first, each once.
local function latest_ids(ids, earlier)
  local kept, is_kept = {}, {}
  local function keep(id)
    if #kept < MAX_IDS and not is_kept[id] then
      is_kept[id] = true
      kept[#kept + 1] = id
    end
  end
  for position = #ids, 1, -1 do
    keep(ids[position])
  end
  for id in string.gmatch(earlier or "", "%S+") do
    keep(id)
  end
  return table.concat(kept, " ")
end

-- Add failures of this minute to those by minute, the latest first: "minute:count minute:count …". Those older than an
-- hour are dropped, and those after now: the clock was set back.
local function add_to_minutes(ctx, minutes, times)
  local minute = math.floor(ctx.now_ms / 60000)
  local latest, count, earlier = string.match(minutes or "", "^(%d+):(%d+)(.*)$")
  if not latest then
    return minute .. ":" .. times
  elseif tonumber(latest) == minute then
    return minute .. ":" .. count + times .. earlier
  end
  local all = minute .. ":" .. times .. " " .. minutes
  local others, oldest = string.match(all, "^(.*) (%d+):%d+$")
  while oldest and (tonumber(oldest) <= minute - MAX_MINUTES or tonumber(oldest) > minute) do
    all = others
    others, oldest = string.match(all, "^(.*) (%d+):%d+$")
  end
  return all
end

local function write_group(ctx, queue, fingerprint, group)
  local key, index = queue_key(ctx, queue, P.error .. ":" .. fingerprint), queue_key(ctx, queue, P.errors)
  local earlier_ids, earlier_minutes = unpack(redis.call("HMGET", key, "ids", "minutes"))
  local ids = latest_ids(group.ids, earlier_ids)
  local minutes = add_to_minutes(ctx, earlier_minutes, group.times)
  redis.call("HINCRBY", key, "times", group.times)
  redis.call("HINCRBY", key, "final", group.final)
  redis.call("HSETNX", key, "first", ctx.now_ms)
  redis.call("HSET", key, "last", ctx.now_ms, "about", group.description, "ids", ids, "minutes", minutes)
  redis.call("PEXPIRE", key, group.ttl_ms)
  redis.call("ZADD", index, ctx.now_ms, fingerprint)
  redis.call("PEXPIRE", index, group.ttl_ms)
end

-- Write the errors of this call; if a queue has too many, delete those that were last seen first.
local function write_errors(ctx)
  for queue, of_queue in pairs(ctx.errors or {}) do
    for fingerprint, group in pairs(of_queue) do
      write_group(ctx, queue, fingerprint, group)
    end
    local index = queue_key(ctx, queue, P.errors)
    for _, fingerprint in ipairs(redis.call("ZRANGE", index, 0, -MAX_ERRORS - 1)) do
      redis.call("ZREM", index, fingerprint)
      redis.call("DEL", queue_key(ctx, queue, P.error .. ":" .. fingerprint))
    end
  end
end
