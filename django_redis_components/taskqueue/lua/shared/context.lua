-- The context of a call: base, now_us and now_ms. Parts collect in it what `flush` writes at the end of the call:
-- ctx.counters, ctx.errors and ctx.requeued_in.

local function server_time_us()
  local time = redis.call("TIME")
  return time[1] * 1000000 + time[2]
end

local function new_context(base)
  local time = redis.call("TIME")
  local now_us = time[1] * 1000000 + time[2]
  return { base = base, now_us = now_us, now_ms = math.floor(now_us / 1000) }
end

-- Return <base>:<key>, or <base>:<key>:<name>.
local function base_key(ctx, key, name)
  if name then
    return ctx.base .. ":" .. key .. ":" .. name
  end
  return ctx.base .. ":" .. key
end

local function task_key(ctx, id)
  return ctx.base .. ":" .. K.task .. ":" .. id
end

local function queue_key(ctx, queue, part)
  return ctx.base .. ":" .. K.queue .. ":" .. queue .. ":" .. part
end
