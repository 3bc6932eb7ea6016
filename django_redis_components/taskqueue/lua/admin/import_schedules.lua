-- Add or replace schedules: all of them or none.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] op  id of the operation, new for each
-- ARGV[2..] rows  for each schedule: name, definition (JSON), times (text), tasks that it has sent, and empty or, if it is
--         paused, a dash and the author
-- DERIVED base:paused_schedules, :added_schedules, :schedule_counts, :schedule:<name> hashes, base:schedules_version,
--         :reply:<op> strings, base:wakeup:* zset
-- Returns {added, replaced}: how many; of one that was there the higher number of sent tasks is kept, and a pause
-- Returns {-2, total}: nothing was imported, since there would be too many
-- Cost: O(rows + added)
local base = KEYS[1]
local op = ARGV[1]
-- @include wakeups
-- @include idempotency
-- @include added_schedule

local ctx = new_context(base)
local added, paused = base_key(ctx, K.added_schedules), base_key(ctx, K.paused_schedules)
local counts = base_key(ctx, K.schedule_counts)

local function total_after()
  local total = redis.call("HLEN", added)
  for position = 2, #ARGV, 5 do
    total = total + 1 - redis.call("HEXISTS", added, ARGV[position])
  end
  return total
end

local function import_row(name, definition, times, sent, pause)
  local is_new = store_added(ctx, name, definition, times)
  if tonumber(sent) > tonumber(redis.call("HGET", counts, name) or 0) then
    redis.call("HSET", counts, name, sent)
  end
  if pause ~= "" then
    redis.call("HSETNX", paused, name, string.format("%.0f %s", ctx.now_ms, string.sub(pause, 2)))
  end
  return is_new
end

local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local total = total_after()
if total > MAX_ADDED then
  return reply(ctx, op, { -2, total })
end
local imported = { 0, 0 }
for position = 2, #ARGV, 5 do
  local index = import_row(unpack(ARGV, position, position + 4)) and 1 or 2
  imported[index] = imported[index] + 1
end
redis.call("INCR", base_key(ctx, K.schedules_version))
notify(ctx, "poller")
return reply(ctx, op, imported)
