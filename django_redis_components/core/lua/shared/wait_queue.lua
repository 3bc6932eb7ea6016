-- The waiters of an object, in the order of their tickets. Expects the locals base, handoff_ms, now_us, now_ms, and
--   queues_of(token)       the queues in which a waiter must be first
--   forget(token)          delete what else is stored of a waiter
--   holds(token)           whether it holds the object, or a part of it
--   grant(token, ttl_ms)   make it a holder
--   revoke(token)          take from it what it holds
-- All waiters are members of `asked`. Those that may be served are in their queues. Those that were offered the
-- object, or missed a turn, are in `paused`, which keeps their tickets.
local asked, paused = base .. ":asked", base .. ":paused"
local handoffs, probes = base .. ":handoffs", base .. ":probes"
-- With a hand-off of 2 s: an unread wakeup is waited for 200 ms, a probe 100 ms; waiters ask every 1.5 s, which must be
-- less than a hand-off; one that was silent for 6 s is offered nothing; after a minute it loses its place.
local confirm_ms, probe_ms, step_ms = handoff_ms / 10, handoff_ms / 20, math.ceil(handoff_ms / 60)
local poll_ms, liveness_ms, place_ms = handoff_ms * 3 / 4, handoff_ms * 3, handoff_ms * 30
-- Probes of the first step. Each further step sends 15 times as many as were sent before.
local FIRST_PROBES = 16
-- Whether this script has made a hand-off; whether it has seen one whose wakeup is unread; queues that lost a waiter.
local offered, unread, vacated = false, false, {}
-- @include wakeup

-- A time in the future was written before the clock was set back: the waiter counts as silent until it asks again.
local function past(at_ms)
  at_ms = tonumber(at_ms or 0)
  return at_ms <= now_ms and at_ms or 0
end

local function last_asked(token)
  return past(redis.call("ZSCORE", asked, token))
end

local function dequeue(token)
  local ticket
  for _, queue in ipairs(queues_of(token)) do
    ticket = redis.call("ZSCORE", queue, token) or ticket
    redis.call("ZREM", queue, token)
    vacated[#vacated + 1] = queue
  end
  redis.call("ZREM", probes, token)
  return ticket
end

-- Removes a waiter and its place. Returns whether it was one.
local function leave(token)
  dequeue(token)
  forget(token)
  redis.call("ZREM", paused, token)
  redis.call("ZREM", handoffs, token)
  return redis.call("ZREM", asked, token) == 1
end

-- Passes over a waiter, which keeps its ticket.
local function pause(token)
  local ticket = dequeue(token)
  if ticket then
    redis.call("ZADD", paused, ticket, token)
    redis.call("PEXPIRE", paused, place_ms)
  end
end

-- The first in a queue, of those that were not silent too long to be offered anything, and of which it is known what
-- they wait for.
local function head(queue)
  while true do
    local first = redis.call("ZRANGE", queue, 0, 0)[1]
    if not first or (last_asked(first) >= now_ms - liveness_ms and #queues_of(first) > 0) then
      return first
    end
    pause(first)
    redis.call("ZREM", queue, first)
  end
end

-- Queues the caller in each queue that it wants, at its old place if it has one: each queue has its own TTL. Tickets
-- follow the server's clock, and grow also while that is set back.
local function join(token)
  local ticket = redis.call("ZSCORE", paused, token)
  local queues, last = queues_of(token), 0
  for _, queue in ipairs(queues) do
    ticket = ticket or redis.call("ZSCORE", queue, token)
    last = math.max(last, tonumber(redis.call("ZRANGE", queue, -1, -1, "WITHSCORES")[2] or 0))
  end
  redis.call("ZREM", paused, token)
  for _, queue in ipairs(queues) do
    redis.call("ZADD", queue, ticket or math.max(now_us, last + 1), token)
    redis.call("PEXPIRE", queue, place_ms)
  end
  redis.call("ZADD", asked, now_ms, token)
  redis.call("PEXPIRE", asked, place_ms)
  for _, gone in ipairs(redis.call("ZRANGE", asked, "-inf", now_ms - place_ms, "BYSCORE", "LIMIT", 0, 16)) do
    leave(gone)
  end
end

-- Makes a waiter the holder for as long as it may take to notice.
local function offer(token)
  pause(token)
  grant(token, handoff_ms)
  redis.call("ZADD", handoffs, now_ms, token)
  redis.call("PEXPIRE", handoffs, place_ms)
  notify(wakeup_of(token))
  offered = true
end

-- Whether what the caller holds is a hand-off, which it takes by this: it gets the lease that it asked for.
local function take(token)
  if redis.call("ZREM", handoffs, token) == 0 then
    return false
  end
  leave(token)
  redis.call("DEL", wakeup_of(token))
  return true
end

-- The waiters before the first that has asked since then: those not probed yet, how many were, and when the last was.
local function silent_head(queue, since)
  local unprobed, probed, last_ms, from = {}, 0, 0, 0
  while true do
    local page = redis.call("ZRANGE", queue, from, from + 999)
    if #page == 0 then
      return unprobed, probed, last_ms
    end
    local times, sent = redis.call("ZMSCORE", asked, unpack(page)), redis.call("ZMSCORE", probes, unpack(page))
    for at, token in ipairs(page) do
      if past(times[at]) >= since then
        return unprobed, probed, last_ms
      end
      if past(sent[at]) >= since then
        probed, last_ms = probed + 1, math.max(last_ms, tonumber(sent[at]))
      else
        unprobed[#unprobed + 1] = token
      end
    end
    from = from + 1000
  end
end

-- Wakes the waiters before the first that has asked since then, a few at first. Returns whether all of them had their
-- time to ask: those that have not are dead, or slow.
local function probe(queue, since)
  local unprobed, probed, last_ms = silent_head(queue, since)
  if #unprobed == 0 then
    return now_ms - last_ms >= probe_ms
  end
  if now_ms - last_ms >= step_ms then
    for at = 1, math.min(#unprobed, math.max(FIRST_PROBES, 15 * probed)) do
      notify(wakeup_of(unprobed[at]))
      redis.call("ZADD", probes, now_ms, unprobed[at])
    end
    redis.call("PEXPIRE", probes, place_ms)
  end
  return false
end

-- Passes over all at the head of a queue that have not asked since then.
local function pause_silent(queue, since)
  local first = redis.call("ZRANGE", queue, 0, 0)[1]
  while first and last_asked(first) < since do
    pause(first)
    redis.call("ZREM", queue, first)
    first = redis.call("ZRANGE", queue, 0, 0)[1]
  end
end

-- Revokes hand-offs that are not taken. One whose wakeup is unread went to a waiter that does not listen: it ends as soon
-- as those behind were probed. One whose wakeup was read ends by itself, and until then all that live have asked.
local function review()
  local marks, done = redis.call("ZRANGE", handoffs, 0, 999, "WITHSCORES"), {}
  for at = 1, #marks, 2 do
    local token, since = marks[at], past(marks[at + 1])
    local over, is_held = now_ms >= since + handoff_ms, holds(token)
    if is_held and not over and redis.call("LLEN", wakeup_of(token)) > 0 then
      unread, over = true, now_ms >= since + confirm_ms
      for _, queue in ipairs(queues_of(token)) do
        local key = queue .. " " .. since
        if done[key] == nil then
          done[key] = probe(queue, since)
        end
        over = over and done[key]
      end
    end
    if is_held and over then
      revoke(token)
      redis.call("DEL", wakeup_of(token))
    end
    if over or not is_held then
      redis.call("ZREM", handoffs, token)
    end
    for _, queue in ipairs(over and queues_of(token) or {}) do
      vacated[#vacated + 1] = queue
      pause_silent(queue, since)
    end
  end
end

-- Milliseconds after which a waiter asks again without a wakeup: the holder may die without a release. The further
-- back, the later, so that not all ask at once.
local function pause_ms(token, left_ms)
  if unread or offered then
    return step_ms
  end
  local rank = 0
  for _, queue in ipairs(queues_of(token)) do
    rank = math.max(rank, redis.call("ZRANK", queue, token) or 0)
  end
  return left_ms < 0 and poll_ms or math.min(left_ms + 1 + 2 * math.min(rank, 50), poll_ms)
end
