-- Read the counters of one task name by hour, of all queues together. Writes nothing.
-- Precondition: a poller adds the hours.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] name  of the task
-- ARGV[2] count  how many of the latest hours; the first is the one that has not ended
-- DERIVED base:queues zset, base:class_rollup, :class_hours:<hour>:<name> strings
-- Returns {now_us, rolled, rows}: rolled is the latest hour of which all queues are added, 0 without one; rows {hour, counters,
--         hour, counters, …}, none later than rolled
-- Cost: O(count)
local base = KEYS[1]
local name = ARGV[1]
local count = tonumber(ARGV[2])
-- @include context

-- Queues of one mark, and marks that are read.
local CHUNK, MAX_CHUNKS = 500, 10
local ctx = new_context(base)
local latest = math.floor(ctx.now_ms / 3600000)
local chunks = math.ceil(redis.call("ZCARD", base_key(ctx, K.queues)) / CHUNK)
local rolled = latest - 1
for chunk = 0, math.max(0, math.min(chunks, MAX_CHUNKS) - 1) do
  local mark = redis.call("GET", base_key(ctx, K.class_rollup, chunk > 0 and chunk or nil))
  rolled = math.min(rolled, tonumber(mark or 0))
end
local rows = {}
for hour = latest - count + 1, rolled do
  local counters = redis.call("GETRANGE", base_key(ctx, K.class_hours, hour .. ":" .. string.sub(name, 1, 200)), 0, 415)
  if counters ~= "" then
    rows[#rows + 1], rows[#rows + 2] = hour, counters
  end
end
return { ctx.now_us, rolled, rows }
