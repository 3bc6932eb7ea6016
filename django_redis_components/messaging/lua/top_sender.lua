-- Find who sent most of the newest messages of a chat or mailbox. Nothing is changed.
-- Precondition: none.
-- KEYS[1] log  stream: messages with their sender, s, and time, t
-- ARGV[1] limit  messages that are read at most
-- ARGV[2] max_bytes  bytes of messages after which no more are read
-- Returns an array: sender, messages of this sender, messages read, and milliseconds from the first to the last of them
-- Returns 0: no messages
-- Cost: O(limit)
local log = KEYS[1]
local limit, max_bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
local CHUNK = 10

local counts, top, count, bytes = {}, "", 0, 0
local newest_ms, oldest_ms
local last_id = "+"
while count < limit and bytes < max_bytes do
  local entries = redis.call("XREVRANGE", log, last_id, "-", "COUNT", math.min(CHUNK, limit - count))
  for _, entry in ipairs(entries) do
    local sender = ""
    for index = 1, #entry[2], 2 do
      local name, value = entry[2][index], entry[2][index + 1]
      bytes = bytes + #value
      if name == "s" then
        sender = value
      elseif name == "t" then
        oldest_ms = tonumber(value)
        newest_ms = newest_ms or oldest_ms
      end
    end
    counts[sender] = (counts[sender] or 0) + 1
    if counts[sender] > (counts[top] or 0) then
      top = sender
    end
    count, last_id = count + 1, "(" .. entry[1]
  end
  if #entries < CHUNK then
    break
  end
end
if count == 0 then
  return 0
end
return { top, counts[top], count, (newest_ms or 0) - (oldest_ms or 0) }
