-- Reports of workers.
-- @include context

-- Return {id, heartbeat_ms, report, …} of the workers in an index with the latest heartbeats.
local function reports_of(ctx, index, limit)
  local reports, heartbeats = {}, redis.call("ZREVRANGE", index, 0, limit - 1, "WITHSCORES")
  for position = 1, #heartbeats, 2 do
    reports[#reports + 1], reports[#reports + 2] = heartbeats[position], heartbeats[position + 1]
    reports[#reports + 1] = redis.call("GET", base_key(ctx, K.worker, heartbeats[position])) or ""
  end
  return reports
end
