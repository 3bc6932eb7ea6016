-- The queues of the names of a group. A waiter is in the queue of each name that it wants, under one ticket, and tickets
-- are in one order: the waiter with the lowest is first in all of its queues, so none can block each other for ever.
-- Reads in ctx: base (the hash of what each waiting token wants), handoff_ms, now_us, now_ms.
-- @include fence_ms
-- @include wait_queue

local function held_key(ctx, name)
  return ctx.base .. ":held:" .. name
end

local function fence_key(ctx, name)
  return ctx.base .. ":fence:" .. name
end

local function queue_key(ctx, name)
  return ctx.base .. ":queue:" .. name
end

-- Return the names that a waiter wants.
local function wanted_names(ctx, token)
  local names = {}
  for name in string.gmatch(redis.call("HGET", ctx.base, token) or "", "[^\n]+") do
    names[#names + 1] = name
  end
  return names
end

-- Grant all of these names to a token, under one number that is above the last of each.
local function grant_names(ctx, token, names, ttl_ms)
  local number = ctx.now_us
  for _, name in ipairs(names) do
    number = math.max(number, tonumber(redis.call("GET", fence_key(ctx, name)) or 0) + 1)
  end
  for _, name in ipairs(names) do
    redis.call("SET", held_key(ctx, name), token, "PX", ttl_ms)
    redis.call("SET", fence_key(ctx, name), number, "PX", ttl_ms + FENCE_MS)
  end
  return number
end

-- Release those of these names that a token holds, and return how many that were.
local function release_names(ctx, token, names)
  local count = 0
  for _, name in ipairs(names) do
    if redis.call("GET", held_key(ctx, name)) == token then
      count = count + redis.call("DEL", held_key(ctx, name))
    end
  end
  return count
end

local function queues_of(ctx, token)
  local queues = {}
  for at, name in ipairs(wanted_names(ctx, token)) do
    queues[at] = queue_key(ctx, name)
  end
  return queues
end

local function forget(ctx, token)
  redis.call("HDEL", ctx.base, token)
end

local function grant(ctx, token, ttl_ms)
  return grant_names(ctx, token, wanted_names(ctx, token), ttl_ms)
end

local function revoke(ctx, token)
  release_names(ctx, token, wanted_names(ctx, token))
end

local function holds(ctx, token)
  for _, name in ipairs(wanted_names(ctx, token)) do
    if redis.call("GET", held_key(ctx, name)) == token then
      return true
    end
  end
  return false
end

-- Return the context of a call and the group's wait queues.
local function open_group(group, handoff_ms, now_us)
  local ctx = { base = group, handoff_ms = handoff_ms, now_us = now_us, now_ms = math.floor(now_us / 1000) }
  local object = { queues_of = queues_of, forget = forget, holds = holds, grant = grant, revoke = revoke }
  return ctx, open_waiters(ctx, object)
end

-- Return whether a waiter is first in all of its queues, and all that it wants is free.
local function fits(waiters, token)
  local ctx = waiters.ctx
  for _, name in ipairs(wanted_names(ctx, token)) do
    local is_held = redis.call("EXISTS", held_key(ctx, name)) == 1
    if is_held or head(waiters, queue_key(ctx, name)) ~= token then
      return false
    end
  end
  return true
end

-- Grant what is free of these names, and of those whose queues lost a waiter, to those first in their queues: a hand-off,
-- or to the caller its whole lease. Return the caller's number if it was granted.
local function serve(waiters, names, caller, ttl_ms)
  local vacated, number = waiters.vacated, nil
  for _, name in ipairs(names) do
    vacated[#vacated + 1] = queue_key(waiters.ctx, name)
  end
  local at = 1
  while at <= #vacated do -- it grows
    local first = head(waiters, vacated[at])
    if first and fits(waiters, first) then
      if first == caller then
        number = grant(waiters.ctx, first, ttl_ms)
        leave(waiters, first)
      else
        offer(waiters, first)
      end
    end
    at = at + 1
  end
  return number
end
