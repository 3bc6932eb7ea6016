-- Points in time as clients send them and as records store them.

-- Parse "+ms" from a time in microseconds, or milliseconds since the epoch. A delay is rounded up: nothing is due before
-- it has passed. `TaskOptions.due_ms` calculates the same.
local function parse_due(due, from_us)
  if string.sub(due, 1, 1) ~= "+" then
    return tonumber(due)
  end
  local delay_ms = tonumber(due)
  return delay_ms > 0 and math.ceil(from_us / 1000) + delay_ms or math.floor(from_us / 1000)
end

-- Return the record's expiry, "at_ms ttl_ms", from the one that enqueue.lua takes. It counts from the due time, and from
-- from_us at the earliest. `TaskOptions.expiry_ms` calculates the same.
local function parse_expiry(expiry, from_us, due_ms)
  local at, ttl_ms = string.match(expiry, "^(%S+) (%d+)$")
  local at_ms = tonumber(at)
  if string.sub(at, 1, 1) == "+" then
    at_ms = at_ms + math.max(math.floor(from_us / 1000), due_ms)
  end
  return string.format("%.0f %s", at_ms, ttl_ms)
end

-- Return whether a task that no worker has run is past its expiry.
local function has_expired(ctx, expiry, worker_ids)
  return expiry and not worker_ids and tonumber(string.match(expiry, "^%d+")) <= ctx.now_ms
end
