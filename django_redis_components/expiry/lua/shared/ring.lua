-- ring(flight, token): wakes all who wait for a computation, also those who are only about to wait.
local function ring(flight, token)
  local waiters = tonumber(redis.call("HGET", flight, "waiters") or 0)
  local bell = flight .. ":bell:" .. token
  for first = 1, waiters, 1000 do
    local strokes = {}
    for i = first, math.min(first + 999, waiters) do
      strokes[#strokes + 1] = "1"
    end
    redis.call("RPUSH", bell, unpack(strokes))
  end
  if waiters > 0 then
    redis.call("PEXPIRE", bell, 2000)
  end
end
