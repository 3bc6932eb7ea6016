-- Revoking hand-offs that their waiters do not accept.
-- @include wait_queue

-- Probes of the first step. Each further step sends 15 times as many as were sent before.
local FIRST_PROBES = 16

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
    for index, token in ipairs(page) do
      if past(waiters, times[index]) >= since_ms then
        return unprobed, probed, last_ms
      end
      if past(waiters, sent[index]) >= since_ms then
        probed, last_ms = probed + 1, math.max(last_ms, tonumber(sent[index]))
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
    for index = 1, math.min(#unprobed, math.max(FIRST_PROBES, 15 * probed)) do
      notify_waiter(waiters, unprobed[index])
      redis.call("ZADD", waiters.probes, waiters.now, unprobed[index])
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
  local ctx, now_ms = waiters.ctx, waiters.now_ms
  local marks, done = redis.call("ZRANGE", waiters.handoffs, "0", "999", "WITHSCORES"), {}
  for index = 1, #marks, 2 do
    local token, since_ms = marks[index], past(waiters, marks[index + 1])
    local remaining_ms, is_partial = left_ms(ctx, token)
    local is_over, is_held = now_ms >= since_ms + waiters.handoff_ms, remaining_ms or is_partial
    if is_held and not is_over and redis.call("LLEN", wakeup_of(waiters.base, token)) > 0 then
      waiters.has_unread, is_over = true, now_ms >= since_ms + waiters.confirm_ms
      for _, queue in ipairs(queues_of(ctx, token)) do
        local key = queue .. " " .. since_ms
        if done[key] == nil then
          done[key] = probe(waiters, queue, since_ms)
        end
        is_over = is_over and done[key]
      end
    end
    if is_held and is_over then
      revoke(ctx, token)
      redis.call("DEL", wakeup_of(waiters.base, token))
    end
    if is_over or not is_held then
      redis.call("ZREM", waiters.handoffs, token)
    end
    for _, queue in ipairs(is_over and queues_of(ctx, token) or {}) do
      vacate(waiters, queue)
      pause_silent(waiters, queue, since_ms)
    end
  end
end
