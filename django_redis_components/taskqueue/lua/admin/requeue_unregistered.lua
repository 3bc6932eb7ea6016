-- Put parked tasks back whose names a worker knows by now.
-- Precondition: none.
-- KEYS[1] base  common prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] skip  how many of the oldest parked tasks are passed over: those that were looked at, and stayed
-- ARGV[3] up_to_ms  those that were parked until then; empty: until now
-- ARGV[4..] names  of tasks that are registered
-- DERIVED base:q:<queue>:parked zset, :front list, base:t:<id> hash, base:bell:* zset
-- Returns {seen, stayed, back, up_to_ms}: how many tasks were looked at, 500 at most, stayed parked, and went back;
--         what the next call of the same round is to be told
-- Cost O(log n) for each of the 500 parked tasks
local base = KEYS[1]
local queue = ARGV[1]
local skip = tonumber(ARGV[2])
local up_to_ms = ARGV[3]
-- @include clock
-- @include places
-- @include put_back

local known = {}
for at = 4, #ARGV do
    known[ARGV[at]] = true
end
-- What a worker that does not know them parks again meanwhile is left to the next round, or this one might never end.
if up_to_ms == "" then
    up_to_ms = string.format("%.3f", now_us / 1000)
end
local stayed, back = 0, 0
local parked = redis.call("ZRANGEBYSCORE", place(queue, "parked"), "-inf", up_to_ms, "LIMIT", skip, 500)
for _, id in ipairs(parked) do
    local record = record_of(id)
    local seen = redis.call("HMGET", record, "n", "s")
    local waits = seen[2] == "parked"
    if waits and not known[seen[1]] then
        stayed = stayed + 1
    else
        redis.call("ZREM", place(queue, "parked"), id)
    end
    if waits and known[seen[1]] then
        put_back("RPUSH", id, queue, "front")
        ring_queue(queue)
        back = back + 1
    end
end
return { #parked, stayed, back, up_to_ms }
