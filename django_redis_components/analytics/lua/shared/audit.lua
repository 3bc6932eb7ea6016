-- Entries of a user's audit that are kept; see MAX_AUDIT in signins.py.
local MAX_AUDIT = 100

-- Add an entry, with the server's time in milliseconds before it.
local function record_entry(audit, entry)
  local now = redis.call("TIME")
  redis.call("LPUSH", audit, string.format("%.0f", now[1] * 1000 + math.floor(now[2] / 1000)) .. " " .. entry)
  redis.call("LTRIM", audit, 0, MAX_AUDIT - 1)
end
