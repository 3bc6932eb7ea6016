-- List one page of the ids in a state. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] state  ready, scheduled, waiting, running, failed or unregistered
-- ARGV[3] offset  how many are passed over
-- ARGV[4] limit  maximum number of tasks
-- DERIVED base:q:<queue>:* lists and zsets
-- Returns ids: ready ones in the order in which they are served, cancelled ones among them, and behind them
--         those of groups, group by group; others by their time; last those that wait for a limit
-- Cost: O(limit + log n), and O(offset / 100) in a list
local base = KEYS[1]
local queue = ARGV[1]
local state = ARGV[2]
local offset = tonumber(ARGV[3])
local limit = tonumber(ARGV[4])
-- @include context

local ctx = new_context(base)
local ids = {}

local function part_key(part)
  return queue_key(ctx, queue, part)
end

-- Add the ranks first to last of one part, after those passed over.
local function add(command, part, first, last)
  local from = first + offset
  offset = math.max(0, offset - (last - first + 1))
  local to = math.min(last, from + limit - #ids - 1)
  if from <= to then
    for _, id in ipairs(redis.call(command, part_key(part), from, to)) do
      ids[#ids + 1] = string.match(id, "[^\t]+$")
    end
  end
end

local due = redis.call("ZCOUNT", part_key(P.scheduled), "-inf", ctx.now_ms)
-- Entries of tasks that wait for concurrency ("c:…") come before those that wait for a rate ("r:…").
local limited, for_concurrency = redis.call("ZCARD", part_key(P.limited)), 0
if limited > 0 then
  for_concurrency = redis.call("ZLEXCOUNT", part_key(P.limited), "[c", "(d")
end
if state == S.ready then
  local urgent = redis.call("ZCOUNT", part_key(P.priority), "-inf", "(0")
  add("LRANGE", P.requeued, 0, redis.call("LLEN", part_key(P.requeued)) - 1)
  add("ZRANGE", P.scheduled, 0, due - 1)
  add("ZRANGE", P.priority, 0, urgent - 1)
  add("LRANGE", P.ready, 0, redis.call("LLEN", part_key(P.ready)) - 1)
  add("ZRANGE", P.priority, urgent, redis.call("ZCARD", part_key(P.priority)) - 1)
  add("ZRANGE", P.grouped, 0, redis.call("ZCARD", part_key(P.grouped)) - 1)
  add("ZRANGE", P.limited, 0, for_concurrency - 1)
elseif state == S.scheduled then
  add("ZRANGE", P.scheduled, due, redis.call("ZCARD", part_key(P.scheduled)) - 1)
  add("ZRANGE", P.limited, for_concurrency, limited - 1)
else
  add("ZRANGE", state, 0, redis.call("ZCARD", part_key(state)) - 1)
end
return ids
