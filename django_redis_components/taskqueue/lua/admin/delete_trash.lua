-- Delete for good what lies in bins that nobody brought back in time; a part of it in one call.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] keep_ms  how long a bin is kept
-- ARGV[2] limit  at most so many tasks
-- DERIVED base:bins zset, base:bin:<bin>:* lists and zsets, base:t:<id> hash, :errors list, base:u:<digest> string,
--         base:flow:<flow> hash, base:q:<queue>:waiting zset
-- Returns {n, left}: n tasks deleted by this call; left 1 when another call finds more, else 0
-- Cost: O(limit log n)
local base = KEYS[1]
local keep_ms = tonumber(ARGV[1])
local limit = tonumber(ARGV[2])
-- @include clock
-- @include places
-- @include finish
-- @include unique
-- @include flow
-- @include tally
-- @include flow_breaks
-- @include abandon
-- @include bins

local old = redis.call("ZRANGEBYSCORE", base .. ":bins", "-inf", now_ms - keep_ms, "LIMIT", 0, 1)[1]
if not old then
    return { 0, 0 }
end
local bin = string.match(old, "[^/]+$")
local taken = take_from(bin, limit)
for _, each in ipairs(taken) do
    abandon(each[1])
end
write_tallies()
if not is_left(bin) then
    redis.call("ZREM", base .. ":bins", old)
end
local left = redis.call("ZCOUNT", base .. ":bins", "-inf", now_ms - keep_ms) > 0 and 1 or 0
return { #taken, left }
