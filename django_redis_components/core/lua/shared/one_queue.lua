-- One queue for all waiters, at ctx.queue. `object` defines also
--   fits(ctx, token)  whether the waiter can be served now: true, false, or nil when it never can, so that it is notified
-- @include wait_queue

local function only_queue(ctx)
  return { ctx.queue }
end

local function forget_nothing() end

-- Return the wait queue of an object with one queue.
local function open_queue(ctx, object)
  object.queues_of, object.forget = only_queue, forget_nothing
  return open_waiters(ctx, object)
end

-- Grant what is free to the first waiters: a hand-off, or the whole lease to the caller, if it is one of them. Return the
-- caller's number if it was granted.
local function serve(waiters, caller, ttl_ms)
  local ctx, object = waiters.ctx, waiters.object
  local number
  local first = head(waiters, ctx.queue)
  while first do
    local fit = object.fits(ctx, first)
    if fit == false then
      break
    elseif fit == nil then
      leave(waiters, first)
      notify_waiter(waiters, first)
    elseif first == caller then
      leave(waiters, first)
      number = object.grant(ctx, first, ttl_ms)
    else
      offer(waiters, first)
    end
    first = head(waiters, ctx.queue)
  end
  return number
end
