-- Wakeup keys: each holds a marker for one blocking BZPOPMIN. A wakeup carries no task, so a lost one loses nothing.
-- @include context

local function notify(ctx, name)
  local wakeup = base_key(ctx, K.wakeup, name)
  if redis.call("ZADD", wakeup, "0", "1") == 1 then
    redis.call("PEXPIRE", wakeup, T.wakeup_ms)
  end
end

-- Return whether a stored pause, "until_ms|…", has ended; until_ms 0: it has no end.
local function has_pause_ended(ctx, pause)
  local until_ms = tonumber(string.match(pause, "^%d+"))
  return until_ms > 0 and until_ms <= ctx.now_ms
end

-- Notify a worker of the queue, unless the queue is paused: resuming it notifies one.
local function notify_queue(ctx, queue)
  local pause = redis.call("HGET", base_key(ctx, K.paused), queue)
  if not pause or has_pause_ended(ctx, pause) then
    notify(ctx, "q:" .. queue)
  end
end

-- Return until when a queue is paused in ms, 0 without an end, nil if it is not paused. Delete a pause that has ended.
local function paused_until(ctx, queue)
  local pause = redis.call("HGET", base_key(ctx, K.paused), queue)
  if pause and has_pause_ended(ctx, pause) then
    redis.call("HDEL", base_key(ctx, K.paused), queue)
    return nil
  end
  return pause and tonumber(string.match(pause, "^%d+"))
end
