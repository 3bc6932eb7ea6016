-- When the latest tasks of a queue's ready list were accepted.
-- @include context

local function enqueued_us(ctx, id)
  return tonumber(redis.call("HGET", task_key(ctx, id), F.enqueued_at_us) or nil)
end

-- Return how many tasks are at the end of the ready list, 100 at most, and when the first and the last were accepted.
local function latest_arrivals(ctx, ready, length)
  if length < 2 then
    return 0, 0, 0
  end
  local latest = math.min(length, 100)
  return latest, enqueued_us(ctx, redis.call("LINDEX", ready, -latest)) or 0,
    enqueued_us(ctx, redis.call("LINDEX", ready, "-1")) or 0
end
