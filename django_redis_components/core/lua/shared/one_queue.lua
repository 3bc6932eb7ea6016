-- One queue for all waiters. Expects the locals queue, fits(token), and those of wait_queue. `fits` tells whether a
-- waiter can be served now: true, false, or nil when it never can, so that it is woken to be told.
local function queues_of()
  return { queue }
end

local function forget() end

-- @include wait_queue

-- Grants what is free to those first in the queue: a hand-off, or to the caller its whole lease. Returns the caller's
-- number if it was its turn.
local function serve(caller, ttl_ms)
  local number
  local first = head(queue)
  while first do
    local fit = fits(first)
    if fit == false then
      break
    elseif fit == nil then
      leave(first)
      notify(wakeup_of(first))
    elseif first == caller then
      leave(first)
      number = grant(first, ttl_ms)
    else
      offer(first)
    end
    first = head(queue)
  end
  return number
end

-- For a script that makes hand-offs and that nothing follows: another waiter looks whether they are taken.
local function watch_handoffs()
  if offered then
    notify(shared_wakeup)
  end
end
