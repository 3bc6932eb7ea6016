-- Count the scheduled tasks of all queues by when they are due. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] step_ms  length of an interval; intervals begin at its multiples since the epoch
-- ARGV[2] count  intervals, at most 48; the first has all that is due by its end
-- ARGV[3] first  rank of the first queue of this call in the index, from which it reads 200
-- DERIVED base:queues, base:q:<queue>:scheduled zsets
-- Returns {now_us, first_ms, counts, next}: first_ms is the start of the first interval; next is the rank at which the
--         next call continues, 0 after the last queue
-- Cost: O(queues * count * log n); at most 200 queues
local base = KEYS[1]
local step_ms = tonumber(ARGV[1])
local count = tonumber(ARGV[2])
local first = tonumber(ARGV[3])
-- @include context

-- Queues of the index that one call reads.
local CHUNK = 200
local ctx = new_context(base)
local first_ms = math.floor(ctx.now_ms / step_ms) * step_ms
local counts = {}
for index = 1, count do
  counts[index] = 0
end
local queues = redis.call("ZRANGE", base_key(ctx, K.queues), first, first + CHUNK - 1)
for _, queue in ipairs(queues) do
  local key = queue_key(ctx, queue, P.scheduled)
  if redis.call("EXISTS", key) == 1 then
    for index = 1, count do
      local start = index == 1 and "-inf" or string.format("%.0f", first_ms + (index - 1) * step_ms)
      counts[index] = counts[index] + redis.call("ZCOUNT", key, start, string.format("(%.0f", first_ms + index * step_ms))
    end
  end
end
return { ctx.now_us, first_ms, counts, #queues == CHUNK and first + CHUNK or 0 }
