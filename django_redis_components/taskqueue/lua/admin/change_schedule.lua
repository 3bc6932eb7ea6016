-- Pause or resume a schedule, add one, or remove an added one. The poller applies it in its next round.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] verb  pause, resume, add, remove, or discard: remove if the definition is still the given one
-- ARGV[2] name  of the schedule
-- ARGV[3] value  to pause: the author; to add or discard: JSON, the definition; else empty
-- ARGV[4] times  to add: its times, as text; else empty
-- ARGV[5] op  id of the operation, new for each
-- DERIVED base:paused_schedules, :added_schedules, :schedule_counts, :schedule:<name> hashes, base:schedules zset, base:schedules_version,
--         :reply:<op> strings, base:wakeup:* zset
-- Returns {1}: changed; an added schedule replaces one of the same name
-- Returns {0}: it is paused (pause), it is not paused (resume), or it was not added (remove, discard)
-- Returns {-1}: no poller has registered such a schedule, and none was added (pause)
-- Returns {-2}: too many were added
-- Cost: O(log n)
local base = KEYS[1]
local verb = ARGV[1]
local name = ARGV[2]
local value = ARGV[3]
local times = ARGV[4]
local op = ARGV[5]
-- @include wakeups
-- @include idempotency
-- @include added_schedule

-- A last due time that refuses all others.
local NEVER_MS = "9007199254740991"
local ctx = new_context(base)
local paused, added = base_key(ctx, K.paused_schedules), base_key(ctx, K.added_schedules)
local index, key = base_key(ctx, K.schedules), base_key(ctx, K.schedule, name)
local counts = base_key(ctx, K.schedule_counts)

local VERBS = {}

function VERBS.pause()
  if not redis.call("ZSCORE", index, name) and redis.call("HEXISTS", added, name) == 0 then
    return -1
  end
  return redis.call("HSETNX", paused, name, string.format("%.0f %s", ctx.now_ms, value))
end

-- Recurrence that passed meanwhile are not sent; those from now on are, also before the poller has registered it again.
function VERBS.resume()
  local was_paused = redis.call("HDEL", paused, name)
  local last_ms = tonumber(redis.call("HGET", key, "last") or nil)
  if was_paused == 1 and last_ms then
    redis.call("HSET", key, "last", string.format("%.0f", math.max(last_ms, ctx.now_ms)), "enabled", 1)
  end
  return was_paused
end

function VERBS.add()
  if redis.call("HEXISTS", added, name) == 0 and redis.call("HLEN", added) >= MAX_ADDED then
    return -2
  end
  store_added(ctx, name, value, times)
  return 1
end

-- A poller that has not read of it yet must not send another due time.
function VERBS.remove()
  if redis.call("HDEL", added, name) == 0 then
    return 0
  end
  redis.call("HDEL", paused, name)
  redis.call("HDEL", counts, name)
  redis.call("ZREM", index, name)
  redis.call("DEL", key)
  redis.call("HSET", key, "last", NEVER_MS)
  redis.call("PEXPIRE", key, T.removed_schedule_ms)
  return 1
end

-- The schedule may have been changed after the caller has found that it has no more due times.
function VERBS.discard()
  return redis.call("HGET", added, name) == value and VERBS.remove() or 0
end

local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local changed = VERBS[verb]()
if changed == 1 then
  redis.call("INCR", base_key(ctx, K.schedules_version))
  notify(ctx, "poller")
end
return reply(ctx, op, { changed })
