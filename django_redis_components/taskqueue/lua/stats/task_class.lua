-- Read the counters of one task name, minute by minute, in all queues that have any. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] name  of the task
-- ARGV[2] first  rank of the first queue of this call in the index, from which it looks at 500
-- ARGV[3] limit  queues whose counters are returned at most
-- DERIVED base:queues zset, base:q:<queue>:task_names:<hour> hash, base:q:<queue>:minute:<minute> string
-- Returns {now_us, next, others, uncounted, rows}: next is the rank at which the next call continues, 0 after the last queue;
--         others that have counters beyond the limit; uncounted queues in which other names had taken all counters of an
--         hour; rows {queue, {ago, counters, ago, counters, …}}, ago 0 is the latest minute
-- Cost: O(queues + limit * minutes)
local base = KEYS[1]
local name = ARGV[1]
local first = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])
-- @include name_counters

-- Queues of the index that one call looks at.
local CHUNK = 500
local ctx = new_context(base)
local rows, others, uncounted = {}, 0, 0
local queues = redis.call("ZRANGE", base_key(ctx, K.queues), first, first + CHUNK - 1)
for _, queue in ipairs(queues) do
  local numbers, is_partial = numbers_of(ctx, queue, name)
  if is_partial then
    uncounted = uncounted + 1
  end
  if numbers and #rows < limit then
    rows[#rows + 1] = { queue, minutes_of(ctx, queue, numbers, COUNTERS) }
  elseif numbers then
    others = others + 1
  end
end
return { ctx.now_us, #queues == CHUNK and first + CHUNK or 0, others, uncounted, rows }
