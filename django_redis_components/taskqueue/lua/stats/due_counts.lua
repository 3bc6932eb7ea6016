-- Count the scheduled tasks of all queues by when they are due. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] step_ms  length of an interval; intervals begin at its multiples since the epoch
-- ARGV[2] count  intervals, at most 48; the first has all that is due by its end
-- ARGV[3] first  rank of the first queue of this call in the index, from which it reads 500
-- DERIVED base:queues, base:q:<queue>:scheduled zsets
-- Returns {now_us, first_ms, counts, next}: first_ms is the start of the first interval; next is the rank at which the
--         next call continues, 0 after the last queue
-- Cost: O(queues * count * log n); at most 500 queues; of a queue without a task in these intervals O(log n)
local base = KEYS[1]
local step_ms = tonumber(ARGV[1])
local count = tonumber(ARGV[2])
local first = tonumber(ARGV[3])
-- @include context

-- Queues of the index that one call reads.
local CHUNK = 500
local ctx = new_context(base)
local first_ms = math.floor(ctx.now_ms / step_ms) * step_ms
local counts, starts, ends = {}, {}, {}
for index = 1, count do
  counts[index] = 0
  starts[index] = index == 1 and "-inf" or string.format("%.0f", first_ms + (index - 1) * step_ms)
  ends[index] = string.format("(%.0f", first_ms + index * step_ms)
end

-- Add the `left` tasks that are due from one interval to another. Halves without tasks are not looked into: most queues
-- have theirs in a few intervals.
local function add_due(key, first_interval, last_interval, left)
  if left == 0 then
    return
  end
  if first_interval == last_interval then
    counts[first_interval] = counts[first_interval] + left
    return
  end
  local middle = math.floor((first_interval + last_interval) / 2)
  local earlier = redis.call("ZCOUNT", key, starts[first_interval], ends[middle])
  add_due(key, first_interval, middle, earlier)
  add_due(key, middle + 1, last_interval, left - earlier)
end

local queues = redis.call("ZRANGE", base_key(ctx, K.queues), first, first + CHUNK - 1)
for _, queue in ipairs(queues) do
  local key = queue_key(ctx, queue, P.scheduled)
  add_due(key, 1, count, redis.call("ZCOUNT", key, starts[1], ends[count]))
end
return { ctx.now_us, first_ms, counts, #queues == CHUNK and first + CHUNK or 0 }
