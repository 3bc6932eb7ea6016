-- Give a task that waits another time, or let it run now.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] due  empty: at once; "+ms": milliseconds from now; else milliseconds since the epoch
-- ARGV[3] op  id of the operation, new for each
-- DERIVED base:t:<id> hash, base:q:<queue>:sched, :limited zsets, :front list, :called hash, base:bell:* zset,
--         base:op:<op> string, base:limit:*, :rate:* strings, base:slots:*, :waits:* zsets
-- Returns {1}: moved
-- Returns {0}: it waits for no time: it is ready, runs, or has finished
-- Returns {-1}: there is no such task
-- Cost: O(log n)
local base = KEYS[1]
local id = ARGV[1]
local due = ARGV[2]
local op = ARGV[3]
-- @include clock
-- @include places
-- @include put_back
-- @include once
-- @include limits
-- @include moments

local before = answered()
if before then
    return before
end
local queue = redis.call("HGET", record_of(id), "q")
if not queue then
    return { -1 }
end
local mine = limits().of(id, queue)
local waits = mine and mine.rate and redis.call("ZSCORE", place(queue, "limited"), mine.rate_line)
if not waits and not redis.call("ZSCORE", place(queue, "sched"), id) then
    return { 0 }
end
limits().pass_on(id, queue)
ring_called_up()
local due_ms = now_ms
if due ~= "" then
    due_ms = moment(due, now_us)
end
redis.call("HSET", record_of(id), "d", due_ms)
redis.call("ZREM", place(queue, "sched"), id) -- or its old score would count as one before it
schedule(queue, id, due_ms)
if due_ms <= now_ms then
    ring_queue(queue)
end
return answer_with({ 1 })
