-- The waiters of an object, in the order of their tickets. Reads in ctx: base, queue, handoff_ms. The kind defines:
--   queues_of(ctx, token)         the queues in which a waiter must be first; none if it is not known what it wants
--   own_queues(ctx)               those that the call is about
--   remember(ctx, token, ttl_ms)  store what else must be known about a waiter; false if it wanted something else before
--   forget(ctx, token)            delete that
--   is_ordered(ctx)               whether waiters are served in order; else the first that asks gets what is free
--   limit_of(ctx, token)          how many leases may exist at once; whether the token counts for more
--   left_ms(ctx, token)           the milliseconds left of its lease, -1 without an end, or nil; whether it has a part of one
--   grant(ctx, token, ttl_ms)     make it a holder, and return the number of the grant; nil if others exclude it, or it is one
--   renew(ctx, token, ttl_ms)     set the lease of a holder anew, and return the number of its grant
--   revoke(ctx, token)            end its lease; return whether it had one, and whether anything became free
--   expire(ctx)                   remove leases that expired; return whether there were any
--   wait_ms(ctx)                  milliseconds after which the caller may be granted without a release; below 0: unknown
--   number_of(ctx, token)         the number of its grant; 0 if it has expired
--   describe_objects(ctx, most)   holders and limits of each object that the call is about, see `inspect`
-- All waiters are members of `asked`. Those that may be served are in their queues. Those that were offered the
-- object, or missed a turn, are in `paused`, which keeps their tickets.
-- @include clock
-- @include integer
-- @include kind
-- @include wakeup

-- With a hand-off of 2 s: an unread wakeup is waited for 200 ms, a probe 100 ms; waiters ask every 1.5 s, which must be
-- less than a hand-off; one that was silent for 6 s is offered nothing; after a minute it loses its place.
local function open_waiters(ctx)
  read_clock(ctx)
  expire(ctx)
  local base, handoff_ms = ctx.base, ctx.handoff_ms
  return {
    ctx = ctx, base = base, now_ms = ctx.now_ms, now = integer(ctx.now_ms), handoff_ms = handoff_ms,
    asked = base .. ":asked", paused = base .. ":paused", handoffs = base .. ":handoffs", probes = base .. ":probes",
    confirm_ms = handoff_ms / 10, probe_ms = handoff_ms / 20, step_ms = math.ceil(handoff_ms / 60),
    poll_ms = handoff_ms * 3 / 4, alive_since_ms = ctx.now_ms - handoff_ms * 3, place_ms = integer(handoff_ms * 30),
    has_offered = false, -- whether this script has made a hand-off
    has_unread = false, -- whether it has seen a hand-off whose wakeup is unread
    vacated = {}, -- queues that lost a waiter, or may have one that can be served
  }
end

local function notify_waiter(waiters, token)
  notify(wakeup_of(waiters.base, token), waiters.handoff_ms)
end

local function notify_any(waiters)
  notify(shared_wakeup(waiters.base), waiters.handoff_ms)
end

-- Have another waiter check whether this script's hand-offs are accepted, unless `confirm` follows the script.
local function watch_handoffs(waiters)
  if waiters.has_offered then
    notify_any(waiters)
  end
end

-- Return 0 for a time in the future: it was written before the clock was set back, and the waiter counts as silent until
-- it asks again.
local function past(waiters, at_ms)
  at_ms = tonumber(at_ms or 0)
  return at_ms <= waiters.now_ms and at_ms or 0
end

local function last_asked(waiters, token)
  return past(waiters, redis.call("ZSCORE", waiters.asked, token))
end

-- Note that the first in a queue may be served now.
local function vacate(waiters, queue)
  local vacated = waiters.vacated
  if vacated[#vacated] ~= queue then
    vacated[#vacated + 1] = queue
  end
end

local function dequeue(waiters, token)
  local ticket
  for _, queue in ipairs(queues_of(waiters.ctx, token)) do
    ticket = redis.call("ZSCORE", queue, token) or ticket
    redis.call("ZREM", queue, token)
    vacate(waiters, queue)
  end
  redis.call("ZREM", waiters.probes, token)
  return ticket
end

-- Remove a waiter and its place. Return whether it was one.
local function leave(waiters, token)
  dequeue(waiters, token)
  forget(waiters.ctx, token)
  redis.call("ZREM", waiters.paused, token)
  redis.call("ZREM", waiters.handoffs, token)
  return redis.call("ZREM", waiters.asked, token) == 1
end

-- Pass over a waiter, which keeps its ticket.
local function pause(waiters, token)
  local ticket = dequeue(waiters, token)
  if ticket then
    redis.call("ZADD", waiters.paused, ticket, token)
    redis.call("PEXPIRE", waiters.paused, waiters.place_ms)
  end
end

-- Return the first in a queue. Waiters that were silent too long, and those of which it is not known what they wait for,
-- are passed over.
local function head(waiters, queue)
  while true do
    local first = redis.call("ZRANGE", queue, "0", "0")[1]
    if not first then
      return nil
    end
    local is_alive = last_asked(waiters, first) >= waiters.alive_since_ms
    if is_alive and #queues_of(waiters.ctx, first) > 0 then
      return first
    end
    pause(waiters, first)
    redis.call("ZREM", queue, first)
  end
end

-- Queue the caller in each queue that it wants, at its old place if it has one: each queue has its own TTL. One that wants
-- something else than before is queued behind. Tickets follow the server's clock, and grow also while that is set back.
local function join(waiters, token)
  local asked, paused, place_ms = waiters.asked, waiters.paused, waiters.place_ms
  if not remember(waiters.ctx, token, place_ms) then
    leave(waiters, token)
    remember(waiters.ctx, token, place_ms)
  end
  local ticket = redis.call("ZSCORE", paused, token)
  local queues, last = queues_of(waiters.ctx, token), 0
  for _, queue in ipairs(queues) do
    ticket = ticket or redis.call("ZSCORE", queue, token)
    last = math.max(last, tonumber(redis.call("ZRANGE", queue, "-1", "-1", "WITHSCORES")[2] or 0))
  end
  redis.call("ZREM", paused, token)
  for _, queue in ipairs(queues) do
    redis.call("ZADD", queue, ticket or integer(math.max(waiters.ctx.now_us, last + 1)), token)
    redis.call("PEXPIRE", queue, place_ms)
  end
  redis.call("ZADD", asked, waiters.now, token)
  redis.call("PEXPIRE", asked, place_ms)
  local silent = redis.call("ZRANGE", asked, "-inf", integer(waiters.now_ms - place_ms), "BYSCORE", "LIMIT", "0", "16")
  for _, gone in ipairs(silent) do
    leave(waiters, gone)
  end
end

-- Note that a waiter was made the holder for as long as it may take to notice, and notify it.
local function hand_off(waiters, token)
  pause(waiters, token)
  redis.call("ZADD", waiters.handoffs, waiters.now, token)
  redis.call("PEXPIRE", waiters.handoffs, waiters.place_ms)
  notify_waiter(waiters, token)
  waiters.has_offered = true
end

-- Return whether what the caller holds is a hand-off. This accepts it: the caller gets the lease that it asked for.
local function accept_handoff(waiters, token)
  if redis.call("ZREM", waiters.handoffs, token) == 0 then
    return false
  end
  leave(waiters, token)
  redis.call("DEL", wakeup_of(waiters.base, token))
  return true
end

-- Return whether a waiter is first in all other queues that it is in.
local function is_first(waiters, token, queue)
  for _, other in ipairs(queues_of(waiters.ctx, token)) do
    if other ~= queue and head(waiters, other) ~= token then
      return false
    end
  end
  return true
end

-- Grant what is free to the first that asks: to the caller, or else notify a waiter.
local function serve_any(waiters, caller, ttl_ms)
  local number = caller and grant(waiters.ctx, caller, ttl_ms)
  if number then
    leave(waiters, caller)
  elseif not caller and wait_ms(waiters.ctx) == -2 and head(waiters, waiters.ctx.queue) then
    notify_any(waiters)
  end
  return number
end

-- Grant what is free to the waiters that are first in their queues: a hand-off, or to the caller its whole lease. Return
-- the caller's number if it was granted. A waiter that can never be granted leaves, and learns why when it asks again.
local function serve(waiters, caller, ttl_ms)
  local ctx, vacated, number = waiters.ctx, waiters.vacated, nil
  if not is_ordered(ctx) then
    return serve_any(waiters, caller, ttl_ms)
  end
  for _, queue in ipairs(own_queues(ctx)) do
    vacate(waiters, queue)
  end
  local index = 1
  while index <= #vacated do -- it grows
    local first = head(waiters, vacated[index])
    local is_next = first and is_first(waiters, first, vacated[index])
    local granted = is_next and grant(ctx, first, first == caller and ttl_ms or waiters.handoff_ms)
    if granted and first == caller then
      number = granted
      leave(waiters, first)
    elseif granted then
      hand_off(waiters, first)
    elseif is_next and select(2, limit_of(ctx, first)) then
      leave(waiters, first)
      notify_waiter(waiters, first)
    else
      index = index + 1
    end
  end
  return number
end

-- Return the milliseconds after which a waiter asks again without a wakeup: the holder may die without a release. The
-- further back, the later, so that not all ask at once.
local function ask_again_ms(waiters, token, left_ms)
  if waiters.has_unread or waiters.has_offered then
    return waiters.step_ms
  end
  local rank = 0
  for _, queue in ipairs(queues_of(waiters.ctx, token)) do
    rank = math.max(rank, redis.call("ZRANK", queue, token) or 0)
  end
  return left_ms < 0 and waiters.poll_ms or math.min(left_ms + 1 + 2 * math.min(rank, 50), waiters.poll_ms)
end
