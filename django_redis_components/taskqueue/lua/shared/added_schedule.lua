-- Store schedules that are added at run time.
-- @include context

-- Most schedules that are added at run time.
local MAX_ADDED = 10000

-- Add a schedule, or replace an added one of this name. Return whether it was added.
local function store_added(ctx, name, definition, times)
  local added, key = base_key(ctx, K.added_schedules), base_key(ctx, K.schedule, name)
  local is_new = redis.call("HSET", added, name, definition) == 1
  if is_new then
    redis.call("DEL", key)
    redis.call("HDEL", base_key(ctx, K.schedule_counts), name)
  end
  -- Its times count from now, not from when a poller first reads of it: the time of a one-off may pass in between.
  local last, last_times = unpack(redis.call("HMGET", key, "last", "times"))
  if last_times ~= times then
    local last_ms = math.max(tonumber(last or 0), ctx.now_ms)
    redis.call("HSET", key, "last", string.format("%.0f", last_ms), "times", times, "enabled", 1)
  end
  return is_new
end
