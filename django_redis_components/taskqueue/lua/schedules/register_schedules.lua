-- Say which schedules there are, and learn up to which slot each has been seen to; forget those that are gone.
-- Precondition: none; the active poller alone is heard.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] poller  id of the caller
-- ARGV[2] keep_ms  how long a schedule that nobody announces any more is remembered
-- ARGV[3..] rows  for each schedule: name, enabled (1 or 0), times (text), next slot (ms, 0 for none), info (JSON)
-- DERIVED base:poller string, base:schedules zset, base:schedule:<name> hash
-- Returns the last slot seen to of each, in ms; for a new one, one whose times have changed, one that is not enabled,
--         or one whose last slots are to come again since the clock was set back: now. Nothing: another poller is active
-- Cost: O(schedules) times O(log n); at most 100 are forgotten in one call
local base = KEYS[1]
local poller = ARGV[1]
local keep_ms = tonumber(ARGV[2])
-- @include clock

if redis.call("GET", base .. ":poller") ~= poller then
    return {}
end
-- Most that the clock may be behind the last slot without being taken for set back, in milliseconds.
local STEP_BACK_MS = 60000
local index = base .. ":schedules"
local lasts = {}
for at = 3, #ARGV, 5 do
    local name, enabled, times = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local key = base .. ":schedule:" .. name
    local seen = redis.call("HMGET", key, "last", "times")
    local last_ms, next_ms = tonumber(seen[1] or 0), tonumber(ARGV[at + 3])
    -- The server's clock was set back by more than a slot: it would send nothing until it is there again. A slot that is
    -- the next one anyway, as the one of a daily schedule, is not sent twice.
    if last_ms > now_ms + STEP_BACK_MS and next_ms > 0 and next_ms < last_ms then
        last_ms = now_ms
    end
    if seen[2] ~= times or enabled == "0" then
        last_ms = math.max(last_ms, now_ms)
    end
    redis.call("HSET", key, "last", last_ms, "times", times, "next", ARGV[at + 3], "info", ARGV[at + 4])
    redis.call("ZADD", index, now_ms, name)
    lasts[#lasts + 1] = last_ms
end
for _, name in ipairs(redis.call("ZRANGEBYSCORE", index, "-inf", now_ms - keep_ms, "LIMIT", 0, 100)) do
    redis.call("DEL", base .. ":schedule:" .. name)
    redis.call("ZREM", index, name)
end
return lasts
