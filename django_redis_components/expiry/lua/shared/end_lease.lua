-- Deletes the lease and wakes all waiters, also those that are about to wait.
-- DEL comes first: at maxmemory the server refuses RPUSH in a script that has written nothing yet.
local function end_lease(lease, token)
  local waiters = tonumber(redis.call("HGET", lease, "waiters") or 0)
  local wakeup = lease .. ":wakeup:" .. token
  redis.call("DEL", lease)
  for first = 1, waiters, 1000 do
    local elements = {}
    for i = first, math.min(first + 999, waiters) do
      elements[#elements + 1] = "1"
    end
    redis.call("RPUSH", wakeup, unpack(elements))
  end
  if waiters > 0 then
    redis.call("PEXPIRE", wakeup, 2000)
  end
end
