-- Read counters of queues that only grow: what was added to the total, and the minutes since. Writes nothing.
-- Precondition: a poller adds minutes to the totals; without one, the latest 170 minutes are read, or none after 14 days.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] first  rank of the first queue of this call in the index, from which it reads 200
-- ARGV[2..] queues  names of further queues
-- DERIVED base:queues zset, base:rollup string, base:q:<queue>:total, :minute:<minute> strings
-- Returns {next, rows}: next is the rank at which the next call continues, 0 after the last queue; each row {queue,
--         counters, counters, …}, to be added up
-- Cost: O(queues * minutes since the last roll-up)
local base = KEYS[1]
local first = tonumber(ARGV[1])
-- @include context

-- Queues of the index that one call reads.
local CHUNK = 200
local ctx = new_context(base)
local latest = math.floor(ctx.now_ms / 60000)
local rolled = tonumber(redis.call("GET", base_key(ctx, K.rollup)) or latest)
rolled = math.max(rolled, latest - 170)

local function row(queue)
  local sets = { queue, redis.call("GETRANGE", queue_key(ctx, queue, P.total), 0, 415) }
  for minute = rolled + 1, latest do
    sets[#sets + 1] = redis.call("GETRANGE", queue_key(ctx, queue, P.minute .. ":" .. minute), 0, 415)
  end
  return sets
end

local names, rows, is_listed = redis.call("ZRANGE", base_key(ctx, K.queues), first, first + CHUNK - 1), {}, {}
local next = #names == CHUNK and first + CHUNK or 0
for index = 2, #ARGV do
  names[#names + 1] = ARGV[index]
end
for _, queue in ipairs(names) do
  if not is_listed[queue] then
    is_listed[queue] = true
    rows[#rows + 1] = row(queue)
  end
end
return { next, rows }
