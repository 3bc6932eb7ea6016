-- What follows a holder who goes: the first living waiter has the lock, or (not fair) is told that it is
-- free, or the key goes.
local function hand_on(handoff_ms, fair)
  local first = head()
  if first and fair then
    return hand_over(first, handoff_ms)
  end
  redis.call("DEL", lock)
  if first then
    ring(first, handoff_ms)
  end
end
