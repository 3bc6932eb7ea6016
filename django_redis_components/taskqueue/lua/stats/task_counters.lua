-- Read the counters of a queue's tasks by name, minute by minute. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] count  how many of the latest minutes, at most 180; the first is the one that has not ended
-- DERIVED base:q:<queue>:task_names:<hour> hash, base:q:<queue>:minute:<minute> string
-- Returns {names, minutes}: names a flat list of hour and flat list of name and number; minutes a flat list of hour
--         and counters, the first 104 of all tasks, then 104 for each number
-- Cost: O(count * names)
local base = KEYS[1]
local queue = ARGV[1]
local count = tonumber(ARGV[2])
-- @include context

local ctx = new_context(base)
local latest = math.floor(ctx.now_ms / 60000)
local names, minutes = {}, {}
for minute = latest, latest - count + 1, -1 do
  local hour = math.floor(minute / 60)
  if names[#names - 1] ~= hour then
    names[#names + 1] = hour
    names[#names + 1] = redis.call("HGETALL", queue_key(ctx, queue, P.task_names .. ":" .. hour))
  end
  local counters = redis.call("GET", queue_key(ctx, queue, P.minute .. ":" .. minute))
  if counters then
    minutes[#minutes + 1] = hour
    minutes[#minutes + 1] = counters
  end
end
return { names, minutes }
