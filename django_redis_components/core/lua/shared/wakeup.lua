-- Wakeup lists: an element wakes one blocked waiter.

local function shared_wakeup(base)
  return base .. ":wakeup"
end

local function wakeup_of(base, token)
  return base .. ":wakeup:" .. token
end

-- Push an element. One is enough: two unread wakeups mean no more than one.
local function notify(wakeup, ttl_ms)
  if redis.call("RPUSH", wakeup, "1") > 1 then
    redis.call("LTRIM", wakeup, "0", "0")
  end
  redis.call("PEXPIRE", wakeup, ttl_ms)
end
