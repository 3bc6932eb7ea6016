-- A plain lock and its queue. Reads in ctx: base (the lock), fence, queue, handoff_ms, now_us, now_ms.
-- @include fence
-- @include one_queue

local function holds(ctx, token)
  return redis.call("GET", ctx.base) == token
end

local function fits(ctx)
  return redis.call("EXISTS", ctx.base) == 0
end

local function grant(ctx, token, ttl_ms)
  redis.call("SET", ctx.base, token, "PX", ttl_ms)
  return next_fence(ctx.fence, ctx.now_us, ttl_ms)
end

local function revoke(ctx)
  redis.call("DEL", ctx.base)
end

-- Return the context of a call and the lock's wait queue.
local function open_lock(lock, fence, queue, handoff_ms, now_us)
  local ctx = {
    base = lock, fence = fence, queue = queue, handoff_ms = handoff_ms,
    now_us = now_us, now_ms = math.floor(now_us / 1000),
  }
  return ctx, open_queue(ctx, { fits = fits, holds = holds, grant = grant, revoke = revoke })
end

-- Pass a free lock on: to the first waiter, or (not fair) to the first that asks, of whom one is notified.
local function pass_on(waiters, fair)
  if fair then
    serve(waiters)
  elseif head(waiters, waiters.ctx.queue) then
    notify_any(waiters)
  end
end
