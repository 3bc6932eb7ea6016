-- @include wakeup

-- Wake a connected waiter if a hand-off went to one that is not: its wakeup is unread. Return 1 then, else 0.
local function confirm_handoffs(base, handoff_ms)
  for _, token in ipairs(redis.call("ZRANGE", base .. ":handoffs", 0, 999)) do
    if redis.call("LLEN", wakeup_of(base, token)) > 0 then
      notify(shared_wakeup(base), handoff_ms)
      return 1
    end
  end
  return 0
end
