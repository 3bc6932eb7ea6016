-- Wakeup lists: an element wakes one blocked waiter. Expects the locals base and handoff_ms.
local shared_wakeup = base .. ":wakeup"

local function wakeup_of(token)
  return base .. ":wakeup:" .. token
end

-- One element at most: two wakeups that were not read mean no more than one.
local function notify(list)
  if redis.call("RPUSH", list, 1) > 1 then
    redis.call("LTRIM", list, 0, 0)
  end
  redis.call("PEXPIRE", list, handoff_ms)
end
