-- Pause a queue: nothing more is fetched from it; what runs goes on.
-- Precondition: none; a paused queue gets the new end and note.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] ends  empty: never; "+ms": milliseconds from now; else milliseconds since the epoch
-- ARGV[3] note  JSON: reason, author
-- DERIVED base:paused hash, base:bell:* zset
-- Returns 1: paused
-- Returns 0: the end has passed already
-- Cost: O(1)
local base = KEYS[1]
local queue = ARGV[1]
local ends = ARGV[2]
local note = ARGV[3]
-- @include clock
-- @include places

local until_ms = 0
if ends ~= "" then
    until_ms = string.sub(ends, 1, 1) == "+" and now_ms + tonumber(ends) or tonumber(ends)
    if until_ms <= now_ms then
        return 0
    end
end
redis.call("HSET", base .. ":paused", queue, string.format("%.0f|%.0f|%s", until_ms, now_ms, note))
if until_ms > 0 then
    -- Who sleeps must learn when to look again: tasks that come meanwhile ring nobody.
    ring("q:" .. queue)
    ring("poller")
end
return 1
