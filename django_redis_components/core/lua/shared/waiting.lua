-- Reading of a wait queue. Expects the locals asked, handoffs, liveness_ms and now_ms.
local function is_waiting(token)
  return tonumber(redis.call("ZSCORE", asked, token) or 0) >= now_ms - liveness_ms
end

-- Waiters that asked lately, without those that were handed what they wait for.
local function count_waiting()
  local count = redis.call("ZCOUNT", asked, now_ms - liveness_ms, "+inf")
  for _, token in ipairs(redis.call("ZRANGE", handoffs, 0, 999)) do
    count = count - (is_waiting(token) and 1 or 0)
  end
  return count
end
