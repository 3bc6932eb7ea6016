-- The wait queue of readers and writers, for scripts that have waiters to serve.
-- @include readwrite
-- @include one_queue

local function open_readwrite_queue(ctx)
  return open_queue(ctx, { fits = fits, holds = holds, grant = grant, revoke = revoke })
end
