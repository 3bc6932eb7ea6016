-- Cancel a task. One that waits leaves zsets at once, and lists when its turn comes; one that runs is asked to end.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] ttl_ms  how long its record is kept
-- ARGV[3] force_ms  how long one that runs has to end by itself; empty: it is left alone
-- DERIVED base:t:<id> hash, :done list, base:q:<queue>:* zsets, :front list, :called hash, :ghosts, :purged strings,
--         base:limit:*, :rate:* strings, base:slots:*, :waits:* zsets, base:bell:* zset, base:u:<digest> string,
--         base:flow:<flow> hash
-- Returns 2: it runs, and has been asked
-- Returns 1: cancelled, now or before
-- Returns 0: it has finished
-- Returns -1: there is no such task
-- Returns -2: it runs, and was left alone
-- Cost: O(log n)
local base = KEYS[1]
local id = ARGV[1]
local ttl_ms = ARGV[2]
local force_ms = tonumber(ARGV[3])
-- @include clock
-- @include places
-- @include put_back
-- @include finish
-- @include unique
-- @include flow
-- @include tally
-- @include flow_breaks
-- @include limits
-- @include cancelled

local record = record_of(id)
local seen = redis.call("HMGET", record, "q", "s", "L", "e", "t", "o", "n")
local queue, state = seen[1], seen[2]
if not queue then
    return -1
end
if state == "cancelled" then
    return 1
end
if state == "running" then
    if not force_ms then
        return -2
    end
    -- Field `o`: when it is ended by force, and how long its record is kept then. The first word of a lease's token
    -- is the worker's id, "supervisor.process": the supervisor looks at its leases when its bell rings.
    local at_ms = math.min(now_ms + force_ms, tonumber(string.match(seen[6] or "", "^%d+") or math.huge))
    redis.call("HSET", record, "o", string.format("%.0f %s", at_ms, ttl_ms))
    ring("s:" .. string.match(seen[3], "^[^/]*"):gsub("%.[^.]*$", ""))
    return 2
end
if state == "successful" or state == "failed" or state == "expired" then
    return 0
end
local left = limits().pass_on(id, queue)
for _, part in ipairs({ "sched", "prio", "parked", "waiting" }) do
    left = left + redis.call("ZREM", place(queue, part), id)
end
if left == 0 and state ~= "waiting" then
    -- It stands in a list: in the queue's, or in a bin's if it came there before the last purge.
    local purged_us = tonumber(redis.call("GET", place(queue, "purged")) or 0)
    if tonumber(seen[5] or seen[4]) > purged_us then
        redis.call("INCR", place(queue, "ghosts"))
    end
end
end_cancelled(id, ttl_ms)
ring_called_up()
tally(queue, seen[7], "cancelled")
write_tallies()
return 1
