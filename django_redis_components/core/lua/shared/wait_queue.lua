-- The waiters of an object, in the order of their tickets.
-- Reads in ctx: base, handoff_ms, now_us, now_ms. `object` is a table of functions:
--   queues_of(ctx, token)      the queues in which a waiter must be first
--   forget(ctx, token)         delete what else is stored about a waiter
--   holds(ctx, token)          whether it holds the object, or a part of it
--   grant(ctx, token, ttl_ms)  make it a holder
--   revoke(ctx, token)         take from it what it holds
-- All waiters are members of `asked`. Those that may be served are in their queues. Those that were offered the
-- object, or missed a turn, are in `paused`, which keeps their tickets.
-- @include wakeup

-- Probes of the first step. Each further step sends 15 times as many as were sent before.
local FIRST_PROBES = 16

-- With a hand-off of 2 s: an unread wakeup is waited for 200 ms, a probe 100 ms; waiters ask every 1.5 s, which must be
-- less than a hand-off; one that was silent for 6 s is offered nothing; after a minute it loses its place.
local function open_waiters(ctx, object)
  local base, handoff_ms = ctx.base, ctx.handoff_ms
  return {
    ctx = ctx, object = object, base = base, now_ms = ctx.now_ms, handoff_ms = handoff_ms,
    asked = base .. ":asked", paused = base .. ":paused", handoffs = base .. ":handoffs", probes = base .. ":probes",
    confirm_ms = handoff_ms / 10, probe_ms = handoff_ms / 20, step_ms = math.ceil(handoff_ms / 60),
    poll_ms = handoff_ms * 3 / 4, alive_since_ms = ctx.now_ms - handoff_ms * 3, place_ms = handoff_ms * 30,
    has_offered = false, -- whether this script has made a hand-off
    has_unread = false, -- whether it has seen a hand-off whose wakeup is unread
    vacated = {}, -- queues that lost a waiter
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

local function dequeue(waiters, token)
  local ticket
  for _, queue in ipairs(waiters.object.queues_of(waiters.ctx, token)) do
    ticket = redis.call("ZSCORE", queue, token) or ticket
    redis.call("ZREM", queue, token)
    table.insert(waiters.vacated, queue)
  end
  redis.call("ZREM", waiters.probes, token)
  return ticket
end

-- Remove a waiter and its place. Return whether it was one.
local function leave(waiters, token)
  dequeue(waiters, token)
  waiters.object.forget(waiters.ctx, token)
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
    if is_alive and #waiters.object.queues_of(waiters.ctx, first) > 0 then
      return first
    end
    pause(waiters, first)
    redis.call("ZREM", queue, first)
  end
end

-- Queue the caller in each queue that it wants, at its old place if it has one: each queue has its own TTL. Tickets
-- follow the server's clock, and grow also while that is set back.
local function join(waiters, token)
  local asked, paused, place_ms = waiters.asked, waiters.paused, waiters.place_ms
  local ticket = redis.call("ZSCORE", paused, token)
  local queues, last = waiters.object.queues_of(waiters.ctx, token), 0
  for _, queue in ipairs(queues) do
    ticket = ticket or redis.call("ZSCORE", queue, token)
    last = math.max(last, tonumber(redis.call("ZRANGE", queue, "-1", "-1", "WITHSCORES")[2] or 0))
  end
  redis.call("ZREM", paused, token)
  for _, queue in ipairs(queues) do
    redis.call("ZADD", queue, ticket or math.max(waiters.ctx.now_us, last + 1), token)
    redis.call("PEXPIRE", queue, place_ms)
  end
  redis.call("ZADD", asked, waiters.now_ms, token)
  redis.call("PEXPIRE", asked, place_ms)
  local silent = redis.call("ZRANGE", asked, "-inf", waiters.now_ms - place_ms, "BYSCORE", "LIMIT", "0", "16")
  for _, gone in ipairs(silent) do
    leave(waiters, gone)
  end
end

-- Make a waiter the holder for as long as it may take to notice.
local function offer(waiters, token)
  pause(waiters, token)
  waiters.object.grant(waiters.ctx, token, waiters.handoff_ms)
  redis.call("ZADD", waiters.handoffs, waiters.now_ms, token)
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

-- Read the waiters before the first that has asked since then. Return those not probed yet, how many were probed, and
-- when the last one was.
local function silent_head(waiters, queue, since_ms)
  local unprobed, probed, last_ms, from = {}, 0, 0, 0
  while true do
    local page = redis.call("ZRANGE", queue, from, from + 999)
    if #page == 0 then
      return unprobed, probed, last_ms
    end
    local times = redis.call("ZMSCORE", waiters.asked, unpack(page))
    local sent = redis.call("ZMSCORE", waiters.probes, unpack(page))
    for at, token in ipairs(page) do
      if past(waiters, times[at]) >= since_ms then
        return unprobed, probed, last_ms
      end
      if past(waiters, sent[at]) >= since_ms then
        probed, last_ms = probed + 1, math.max(last_ms, tonumber(sent[at]))
      else
        unprobed[#unprobed + 1] = token
      end
    end
    from = from + 1000
  end
end

-- Wake the waiters before the first that has asked since then, a few at first. Return whether all of them had their
-- time to ask: those that have not are dead, or slow.
local function probe(waiters, queue, since_ms)
  local unprobed, probed, last_ms = silent_head(waiters, queue, since_ms)
  if #unprobed == 0 then
    return waiters.now_ms - last_ms >= waiters.probe_ms
  end
  if waiters.now_ms - last_ms >= waiters.step_ms then
    for at = 1, math.min(#unprobed, math.max(FIRST_PROBES, 15 * probed)) do
      notify_waiter(waiters, unprobed[at])
      redis.call("ZADD", waiters.probes, waiters.now_ms, unprobed[at])
    end
    redis.call("PEXPIRE", waiters.probes, waiters.place_ms)
  end
  return false
end

-- Pass over all at the head of a queue that have not asked since then.
local function pause_silent(waiters, queue, since_ms)
  local first = redis.call("ZRANGE", queue, "0", "0")[1]
  while first and last_asked(waiters, first) < since_ms do
    pause(waiters, first)
    redis.call("ZREM", queue, first)
    first = redis.call("ZRANGE", queue, "0", "0")[1]
  end
end

-- Revoke hand-offs that are not accepted. One whose wakeup is unread went to a waiter that does not listen: it ends as
-- soon as those behind were probed. One whose wakeup was read expires, and until then all that live have asked.
local function review(waiters)
  local ctx, object, now_ms = waiters.ctx, waiters.object, waiters.now_ms
  local marks, done = redis.call("ZRANGE", waiters.handoffs, "0", "999", "WITHSCORES"), {}
  for at = 1, #marks, 2 do
    local token, since_ms = marks[at], past(waiters, marks[at + 1])
    local is_over, is_held = now_ms >= since_ms + waiters.handoff_ms, object.holds(ctx, token)
    if is_held and not is_over and redis.call("LLEN", wakeup_of(waiters.base, token)) > 0 then
      waiters.has_unread, is_over = true, now_ms >= since_ms + waiters.confirm_ms
      for _, queue in ipairs(object.queues_of(ctx, token)) do
        local key = queue .. " " .. since_ms
        if done[key] == nil then
          done[key] = probe(waiters, queue, since_ms)
        end
        is_over = is_over and done[key]
      end
    end
    if is_held and is_over then
      object.revoke(ctx, token)
      redis.call("DEL", wakeup_of(waiters.base, token))
    end
    if is_over or not is_held then
      redis.call("ZREM", waiters.handoffs, token)
    end
    for _, queue in ipairs(is_over and object.queues_of(ctx, token) or {}) do
      table.insert(waiters.vacated, queue)
      pause_silent(waiters, queue, since_ms)
    end
  end
end

-- Return the milliseconds after which a waiter asks again without a wakeup: the holder may die without a release. The
-- further back, the later, so that not all ask at once.
local function pause_ms(waiters, token, left_ms)
  if waiters.has_unread or waiters.has_offered then
    return waiters.step_ms
  end
  local rank = 0
  for _, queue in ipairs(waiters.object.queues_of(waiters.ctx, token)) do
    rank = math.max(rank, redis.call("ZRANK", queue, token) or 0)
  end
  return left_ms < 0 and waiters.poll_ms or math.min(left_ms + 1 + 2 * math.min(rank, 50), waiters.poll_ms)
end
