-- Read the schedules that pollers know, and what became of them. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] limit  at most so many, in order of when they were last announced, the latest first
-- DERIVED base:poller string, base:schedules zset, base:schedule:<name> hash
-- Returns {now_us, active, rows}: active 1 if a poller is; each row {name, announced_ms, times, last_ms, next_ms, fired_us, id, info}; fired_us 0
--         and id empty if it has sent nothing yet
-- Cost: O(limit)
local base = KEYS[1]
local limit = tonumber(ARGV[1])
-- @include clock

local rows = {}
local found = redis.call("ZREVRANGE", base .. ":schedules", 0, limit - 1, "WITHSCORES")
for at = 1, #found, 2 do
    local key = base .. ":schedule:" .. found[at]
    local seen = redis.call("HMGET", key, "times", "last", "next", "fired", "id", "info")
    rows[#rows + 1] = {
        found[at],
        tonumber(found[at + 1]),
        seen[1] or "",
        tonumber(seen[2] or 0),
        tonumber(seen[3] or 0),
        tonumber(seen[4] or 0),
        seen[5] or "",
        seen[6] or "{}",
    }
end
return { now_us, redis.call("EXISTS", base .. ":poller"), rows }
