-- Functions of a plain lock that the wait queue calls. Expects the locals base, lock, queue, handoff_ms, now_us and now_ms.
local function holds(token)
  return redis.call("GET", lock) == token
end

local function fits()
  return redis.call("EXISTS", lock) == 0
end

local function grant(token, ttl_ms)
  redis.call("SET", lock, token, "PX", ttl_ms)
  return next_fence(ttl_ms)
end

local function revoke()
  redis.call("DEL", lock)
end

-- @include one_queue

-- Passes a free lock on: to the first waiter, or (not fair) to the first that asks, of whom one is woken.
local function pass_on(fair)
  if fair then
    serve()
  elseif head(queue) then
    notify(shared_wakeup)
  end
end
