-- Read counters of queues that only grow: what was added to the total, and the latest minutes. Writes nothing.
-- Precondition: a poller adds minutes to the totals; without one, the latest 170 minutes are read, or none after 14 days.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] first  rank of the first queue of this call in the index, from which it reads 200
-- ARGV[2..] queues  names of further queues
-- DERIVED base:queues zset, base:rollup string, base:q:<queue>:total, :minute:<minute> strings
-- Returns {next, rows, now_us, unadded}: next is the rank at which the next call continues, 0 after the last queue; each row
--         {queue, total, ago, counters, ago, counters, …} has the total, and the latest six minutes that are not empty, ago 0 is
--         the one that has not ended; the minutes whose `ago` is less than unadded are not in the total, and are there even if
--         they are more than six
-- Cost: O(queues * minutes since the last roll-up)
local base = KEYS[1]
local first = tonumber(ARGV[1])
-- @include context

-- Queues of the index that one call reads, and the latest minutes of each.
local CHUNK, RECENT = 200, 6
local ctx = new_context(base)
local latest = math.floor(ctx.now_ms / 60000)
local rolled = tonumber(redis.call("GET", base_key(ctx, K.rollup)) or latest)
rolled = math.max(rolled, latest - 170)
local unadded = math.max(0, latest - rolled)
local parts = {}
for ago = 0, math.max(unadded, RECENT) - 1 do
  parts[ago + 1] = P.minute .. ":" .. (latest - ago)
end

local function row(queue)
  local prefix = queue_key(ctx, queue, "")
  local sets, keys = { queue, redis.call("GETRANGE", prefix .. P.total, 0, 415) }, {}
  for position, part in ipairs(parts) do
    keys[position] = prefix .. part
  end
  if redis.call("EXISTS", unpack(keys)) > 0 then -- most queues have none
    for position, key in ipairs(keys) do
      local counters = redis.call("GETRANGE", key, 0, 415)
      if counters ~= "" then
        sets[#sets + 1] = position - 1
        sets[#sets + 1] = counters
      end
    end
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
return { next, rows, ctx.now_us, unadded }
