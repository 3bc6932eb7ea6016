-- The queues of a group's names, for scripts that have waiters to serve. A waiter is in the queue of each name that it
-- wants, under one ticket, and tickets are in one order: the waiter with the lowest is first in all of its queues, so none
-- can block each other for ever.
-- @include group
-- @include wait_queue

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

local function open_group_queue(ctx)
  return open_waiters(ctx, { queues_of = queues_of, forget = forget, holds = holds, grant = grant, revoke = revoke })
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
