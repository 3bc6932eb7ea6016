-- The wait queue of permits, for scripts that have waiters to serve.
-- @include permits
-- @include one_queue

-- Return whether a permit counts for more than the limit, so that it would wait for ever and block those behind it.
local function exceeds_limit(ctx, permit)
  local count, limit = count_and_limit(ctx, permit)
  return count > limit
end

local function holds(ctx, permit)
  return redis.call("ZSCORE", ctx.holders, permit) and true or false
end

-- A waiter that exceeds the limit leaves the queue, and learns why when it asks again.
local function fits(ctx, permit)
  if exceeds_limit(ctx, permit) then
    return nil
  end
  return has_room(ctx, permit)
end

local function open_permit_queue(ctx)
  return open_queue(ctx, { fits = fits, holds = holds, grant = grant, revoke = revoke })
end
