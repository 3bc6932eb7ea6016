-- end_flight(flight, token): deletes the flight and wakes all waiters, also those that are about to wait.
-- DEL comes first: at maxmemory the server refuses RPUSH in a script that has written nothing yet.
local function end_flight(flight, token)
  local waiters = tonumber(redis.call("HGET", flight, "waiters") or 0)
  local bell = flight .. ":bell:" .. token
  redis.call("DEL", flight)
  for first = 1, waiters, 1000 do
    local elements = {}
    for i = first, math.min(first + 999, waiters) do
      elements[#elements + 1] = "1"
    end
    redis.call("RPUSH", bell, unpack(elements))
  end
  if waiters > 0 then
    redis.call("PEXPIRE", bell, 2000)
  end
end
