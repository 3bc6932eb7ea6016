-- Read the counters of the latest minutes or hours of some queues, but those that the caller has. Writes nothing.
-- Precondition: none; hours contain the minutes that have ended and that a poller has added to them.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] step  minute or hour
-- ARGV[2] count  how many of the latest, at most 336; the first is the one that has not ended
-- ARGV[3] known_first  the first of the minutes or hours that the caller has read already
-- ARGV[4] known_last  the last of them, less than the first without any; the one that has not ended is read all the same
-- ARGV[5..] queues  names
-- DERIVED base:q:<queue>:minute:<minute>, :hour:<hour> strings
-- Returns {now_us, rows}: each row {queue, ago, counters, ago, counters, …} without the empty ones; ago 0 is the latest
-- Cost: O(queues * count)
local base = KEYS[1]
local step = ARGV[1]
local count = tonumber(ARGV[2])
local known_first = tonumber(ARGV[3])
local known_last = tonumber(ARGV[4])
-- @include context

local call = redis.call -- looked up once, not for each of some thousand commands
local ctx = new_context(base)
local latest = math.floor(ctx.now_ms / (step == P.minute and 60000 or 3600000))
local parts, agos, rows = {}, {}, {}
for ago = 0, count - 1 do
  local number = latest - ago
  if ago == 0 or number < known_first or number > known_last then
    parts[#parts + 1], agos[#agos + 1] = step .. ":" .. number, ago
  end
end
for index = 5, #ARGV do
  local row, prefix = { ARGV[index] }, queue_key(ctx, ARGV[index], "")
  for position, part in ipairs(parts) do
    local counters = call("GETRANGE", prefix .. part, "0", "415")
    if counters ~= "" then
      row[#row + 1] = agos[position]
      row[#row + 1] = counters
    end
  end
  rows[#rows + 1] = row
end
return { ctx.now_us, rows }
