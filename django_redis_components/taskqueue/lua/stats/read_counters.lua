-- Read the counters of the latest minutes or hours of some queues. Writes nothing.
-- Precondition: none; hours contain the minutes that have ended and that a poller has added to them.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] step  minute or hour
-- ARGV[2] count  how many of the latest, at most 336; the first is the one that has not ended
-- ARGV[3..] queues  names
-- DERIVED base:q:<queue>:minute:<minute>, :hour:<hour> strings
-- Returns {now_us, rows}: each row {queue, ago, counters, ago, counters, …} without the empty ones; ago 0 is the latest
-- Cost: O(queues * count)
local base = KEYS[1]
local step = ARGV[1]
local count = tonumber(ARGV[2])
-- @include context

local call = redis.call -- looked up once, not for each of some thousand commands
local ctx = new_context(base)
local latest = math.floor(ctx.now_ms / (step == P.minute and 60000 or 3600000))
local parts, rows = {}, {}
for ago = 0, count - 1 do
  parts[ago + 1] = step .. ":" .. (latest - ago)
end
for index = 3, #ARGV do
  local row, prefix = { ARGV[index] }, queue_key(ctx, ARGV[index], "")
  for position, part in ipairs(parts) do
    local counters = call("GETRANGE", prefix .. part, "0", "415")
    if counters ~= "" then
      row[#row + 1] = position - 1
      row[#row + 1] = counters
    end
  end
  rows[#rows + 1] = row
end
return { ctx.now_us, rows }
