-- Read the history of all queues together: the counters of the latest buckets, and those of the minutes that no poller
-- has added to a bucket yet. Writes nothing.
-- Precondition: a poller adds minutes to the buckets.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] minutes  length of a bucket: 1, 10, 60 or 1440
-- ARGV[2] count  how many of the latest buckets; the first is the one that has not ended
-- ARGV[3] budget  how many minutes of single queues are read at most
-- DERIVED base:queues zset, base:rollup, :history:<minutes>:<n> strings, base:q:<queue>:minute:<minute> strings
-- Returns {now_us, rolled, first, rows}: rolled is the latest minute in the buckets, first the minute from which the minutes
--         of the queues, as many as the budget, are read: with minutes between them the budget was too small; rows {ago, counters, ago,
--         counters, …} are to be added up by ago, 0 is the latest bucket. The caller adds: it takes less time than a script, which
--         stops all other callers
-- Cost: O(count + queues * minutes since the last roll-up)
local base = KEYS[1]
local minutes = tonumber(ARGV[1])
local count = tonumber(ARGV[2])
local budget = tonumber(ARGV[3])
-- @include context

local ctx = new_context(base)
local latest = math.floor(ctx.now_ms / 60000)
local newest = math.floor(latest / minutes)
local rows = {}

local function read_into(bucket, key)
  local counters = redis.call("GETRANGE", key, "0", "415")
  if counters ~= "" then
    rows[#rows + 1] = newest - bucket
    rows[#rows + 1] = counters
  end
end

for bucket = newest - count + 1, newest do
  read_into(bucket, base_key(ctx, K.history, minutes .. ":" .. bucket))
end

local queues = redis.call("ZRANGE", base_key(ctx, K.queues), 0, budget - 1)
local rolled = tonumber(redis.call("GET", base_key(ctx, K.rollup)) or latest - 2)
rolled = math.max(math.min(rolled, latest - 1), latest - 170)
local first = math.max(rolled + 1, latest + 1 - math.floor(budget / math.max(#queues, 1)), (newest - count + 1) * minutes)
for minute = first, latest do
  local bucket, part = math.floor(minute / minutes), P.minute .. ":" .. minute
  for _, queue in ipairs(queues) do
    read_into(bucket, queue_key(ctx, queue, part))
  end
end
return { ctx.now_us, rolled, first, rows }
