-- Read schedules by name, with their latest tasks and what was changed at run time. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] part  only names with this part, in lower case; empty for all
-- ARGV[2] after  only names after this one; empty from the first
-- ARGV[3] limit  maximum number of schedules
-- ARGV[4] order  name; or registered: the latest registered ones, whatever their name, and none that only was added
-- DERIVED base:poller string, base:schedules zset, base:schedule:<name>, :paused_schedules, :added_schedules,
--         :schedule_counts, :t:<id> hashes
-- Returns {now_us, active, total, more, rows}: active 1 if a poller is; total of the names with the part; more 1 if there are
--         names after the last row; each row {name, registered_ms, times, last_ms, next_ms, fired_us, id, info, queue, state,
--         due_ms, paused, definition, sent}: id to due_ms of the latest task, empty without one, queue empty too when its
--         record has expired; registered_ms 0 if no poller has; paused and definition as their keys have them, else empty
-- Cost: by name O(n log n) for the names; O(limit)
local base = KEYS[1]
local part = ARGV[1]
local after = ARGV[2]
local limit = tonumber(ARGV[3])
local order = ARGV[4]
-- @include context

local ctx = new_context(base)
local index, added = base_key(ctx, K.schedules), base_key(ctx, K.added_schedules)
local paused, counts = base_key(ctx, K.paused_schedules), base_key(ctx, K.schedule_counts)

local names, total = {}, 0

local function add_name(name)
  if part == "" or string.find(string.lower(name), part, 1, true) then
    total = total + 1
    if name > after then
      names[#names + 1] = name
    end
  end
end

local function find_names()
  local is_registered = {}
  for _, name in ipairs(redis.call("ZRANGE", index, 0, -1)) do
    is_registered[name] = true
    add_name(name)
  end
  for _, name in ipairs(redis.call("HKEYS", added)) do
    if not is_registered[name] then
      add_name(name)
    end
  end
  table.sort(names)
end

if order == "name" then
  find_names()
else
  names, total = redis.call("ZREVRANGE", index, 0, limit - 1), redis.call("ZCARD", index)
end

local function row(name)
  local times, last, next, fired, id, info = unpack(redis.call("HMGET", base_key(ctx, K.schedule, name),
    "times", "last", "next", "fired", "id", "info"))
  local queue, state, due_ms = unpack(redis.call("HMGET", task_key(ctx, id or ""), F.queue, F.state, F.due_at_ms))
  return {
    name, tonumber(redis.call("ZSCORE", index, name) or 0), times or "", tonumber(last or 0), tonumber(next or 0), tonumber(fired or 0),
    id or "", info or "{}", queue or "", state or "", due_ms or "",
    redis.call("HGET", paused, name) or "", redis.call("HGET", added, name) or "",
    tonumber(redis.call("HGET", counts, name) or 0),
  }
end

local rows = {}
for position = 1, math.min(limit, #names) do
  rows[position] = row(names[position])
end
return { ctx.now_us, redis.call("EXISTS", base_key(ctx, K.poller)), total, #names > limit and 1 or 0, rows }
