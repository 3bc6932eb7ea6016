-- Wakes a waiter that is connected if a hand-off was made to one that is not. Expects the locals base and handoff_ms.
-- @include wakeup

for _, token in ipairs(redis.call("ZRANGE", base .. ":handoffs", 0, 999)) do
  if redis.call("LLEN", wakeup_of(token)) > 0 then
    notify(shared_wakeup)
    return 1
  end
end
return 0
