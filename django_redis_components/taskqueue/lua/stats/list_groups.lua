-- List the groups of a queue that have most ready tasks, and all paused ones. Of many groups it looks at those of some tasks
-- only, chosen at random, so that large groups are among them. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] limit  most groups without a pause that are returned
-- ARGV[3] budget  most groups that are looked at, and random tasks
-- DERIVED base:q:<queue>:grouped, :turns zsets, :paused_groups hash, base:t:<id> hash
-- Returns {now_us, groups, is_partial, rows}: groups is how many have ready tasks and no pause, if is_partial is 1 how
--         many have turns; is_partial 1 if not all were looked at, else 0; each row {group, ready, since_us, pause}: since_us is when its first task was accepted or due, 0 without one; pause
--         is "0|since_ms|JSON" or empty
-- Cost: O(budget log n)
local base = KEYS[1]
local queue = ARGV[1]
local limit = tonumber(ARGV[2])
local budget = tonumber(ARGV[3])
-- @include groups

local ctx = new_context(base)
local grouped = queue_key(ctx, queue, P.grouped)
local pauses = redis.call("HGETALL", queue_key(ctx, queue, P.paused_groups))
local rows, is_listed, is_partial = {}, {}, 0

local function add(group, pause)
  if not is_listed[group] then
    is_listed[group] = true
    local ready = redis.call("ZLEXCOUNT", grouped, "[" .. group .. "\t", "(" .. group .. "\n")
    rows[#rows + 1] = { group, ready, first_since_us(ctx, queue, group) or 0, pause or "" }
  end
end

local function group_of(entry)
  return string.match(entry, "^[^\t]*")
end

local function compare(one, other)
  if one[2] ~= other[2] then
    return one[2] > other[2]
  end
  return one[1] < other[1]
end

for index = 1, #pauses, 2 do
  add(pauses[index], pauses[index + 1])
end
local from = "-"
for looked_at = 1, budget do
  local entry = redis.call("ZRANGEBYLEX", grouped, from, "+", "LIMIT", 0, 1)[1]
  if not entry then
    break
  end
  add(group_of(entry))
  from = "(" .. group_of(entry) .. "\n"
  is_partial = looked_at == budget and 1 or 0
end
if is_partial == 1 then
  for _, entry in ipairs(redis.call("ZRANDMEMBER", grouped, budget)) do
    add(group_of(entry))
  end
end
table.sort(rows, compare)
local listed, others = {}, 0
for _, row in ipairs(rows) do
  others = others + (row[4] == "" and 1 or 0)
  if row[4] ~= "" or others <= limit then
    row[3] = string.format("%.0f", row[3])
    listed[#listed + 1] = row
  end
end
local turns = queue_key(ctx, queue, P.turns)
-- Groups whose tasks were cancelled or moved have turns until the next fetch.
local groups = is_partial == 0 and others
  or redis.call("ZCARD", turns) - (redis.call("ZSCORE", turns, WITHOUT_GROUP) and 1 or 0)
return { string.format("%.0f", ctx.now_us), groups, is_partial, listed }
