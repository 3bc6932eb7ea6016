-- Register the schedules, and return up to which due time each was handled; delete those that no poller registers any more.
-- Precondition: none; only the active poller's call has an effect, and only if it has read the latest changes at run time:
-- a schedule that was removed meanwhile must not be registered again.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] poller  id of the caller
-- ARGV[2] keep_ms  how long a schedule that no poller registers is kept; 0 deletes none
-- ARGV[3] version  of the changes at run time that the rows have, see read_changes.lua
-- ARGV[4..] rows  for each schedule: name, enabled (1 or 0), times (text), next due time (ms, 0 for none), info (JSON),
--         most tasks that it sends (0 for no limit)
-- DERIVED base:poller, :schedules_version strings, base:schedules zset, base:schedule:<name>, :schedule_counts, :added_schedules hashes
-- Returns of each the last handled due time, in ms, and the tasks that it has sent if these are limited. The time is, for a new one, one whose times have changed, one that is not enabled or
--         was not at the registration before, one that had no further due time and has one since its end or count was
--         changed, or one whose last due times repeat since the clock was set back: now. Empty: another poller is active, or there is a later version
-- Cost: O(schedules) times O(log n); at most 100 are deleted in one call
local base = KEYS[1]
local poller = ARGV[1]
local keep_ms = tonumber(ARGV[2])
local version = ARGV[3]
-- @include context

local ctx = new_context(base)
if redis.call("GET", base_key(ctx, K.poller)) ~= poller
  or (redis.call("GET", base_key(ctx, K.schedules_version)) or "0") ~= version then
  return {}
end
-- The clock may be behind the last due time by so much without being taken for set back, in milliseconds.
local MAX_STEP_BACK_MS = 60000
local index, counts = base_key(ctx, K.schedules), base_key(ctx, K.schedule_counts)

local function register(name, enabled, times, next_due, info, count)
  local key = base_key(ctx, K.schedule, name)
  local last, last_times, was_enabled, last_next, last_info = unpack(redis.call("HMGET", key, "last", "times", "enabled",
    "next", "info"))
  local last_ms, next_ms = tonumber(last or 0), tonumber(next_due)
  -- The server's clock was set back by more than the time between two due times: the schedule would be silent until it
  -- catches up. A due time that is the next one anyway, as that of a daily schedule, is not sent twice.
  if last_ms > ctx.now_ms + MAX_STEP_BACK_MS and next_ms > 0 and next_ms < last_ms then
    last_ms = ctx.now_ms
  end
  local sent = count ~= "0" and tonumber(redis.call("HGET", counts, name) or 0) or 0
  if count ~= "0" and sent >= tonumber(count) then
    next_due = 0
  end
  -- Its end or its count was changed: the times since it had finished were not missed.
  local is_extended = last_next == "0" and last_info ~= info and tonumber(next_due) > 0
  if last_times ~= times or enabled == "0" or was_enabled == "0" or is_extended then
    last_ms = math.max(last_ms, ctx.now_ms)
  end
  redis.call("HSET", key, "last", last_ms, "times", times, "enabled", enabled, "next", next_due, "info", info)
  redis.call("ZADD", index, ctx.now_ms, name)
  return last_ms, sent
end

local states = {}
for position = 4, #ARGV, 6 do
  local last_ms, sent = register(unpack(ARGV, position, position + 5))
  states[#states + 1] = last_ms
  states[#states + 1] = sent
end
if keep_ms == 0 then
  return states
end
local added = base_key(ctx, K.added_schedules)
for _, name in ipairs(redis.call("ZRANGEBYSCORE", index, "-inf", ctx.now_ms - keep_ms, "LIMIT", 0, 100)) do
  -- An added schedule continues after its last due time as soon as a poller has its task in its code again.
  if redis.call("HEXISTS", added, name) == 0 then
    redis.call("DEL", base_key(ctx, K.schedule, name))
    redis.call("HDEL", counts, name)
  end
  redis.call("ZREM", index, name)
end
return states
