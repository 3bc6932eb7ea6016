-- Let failed tasks run again: those named, or the oldest up to a moment. Their errors stay with them.
-- Precondition: none; a task that is not failed any more is passed over; one whose unique key another has stays failed.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] up_to_ms  those that failed until then, when no ids are named
-- ARGV[3] limit  at most so many
-- ARGV[4] op  id of the operation, new for each
-- ARGV[5] skip  how many of the oldest are passed over: those that were looked at, and stayed
-- ARGV[6..] ids  of tasks
-- DERIVED base:q:<queue>:failed, :prio, :waiting zsets, :ready list, base:t:<id> hash, :errors list, base:bell:* zset,
--         base:seq string, base:op:<op> string, base:u:<digest> string, base:flow:<flow> hash
-- Returns {n, m, k}: n put back, m looked at, k stayed, since another task has their unique key
-- Cost: O(m log n)
local base = KEYS[1]
local queue = ARGV[1]
local up_to_ms = ARGV[2]
local limit = ARGV[3]
local op = ARGV[4]
local skip = ARGV[5]
-- @include clock
-- @include places
-- @include put_back
-- @include unique
-- @include finish
-- @include flow
-- @include flow_revives
-- @include once
-- @include chosen

local before = answered()
if before then
    return before
end
local ids = chosen("failed", skip)
local back, stayed = 0, 0
for _, id in ipairs(ids) do
    local record = record_of(id)
    local seen = redis.call("HMGET", record, "s", "p", "u", "c")
    local failed = redis.call("ZSCORE", place(queue, "failed"), id) and seen[1] == "failed"
    if failed and seen[3] and reclaim(id, seen[3]) then
        stayed = stayed + 1
    elseif redis.call("ZREM", place(queue, "failed"), id) == 1 and failed then
        redis.call("HDEL", record, "F", "a", "x", "d", "L", "o")
        redis.call("PERSIST", record)
        if seen[2] then
            redis.call("HSET", record, "s", "ready")
            rank(queue, id, seen[2])
        else
            put_back("RPUSH", id, queue, "ready")
        end
        if seen[4] then
            flow_revives(seen[4])
        end
        back = back + 1
    end
end
if back > 0 then
    ring_queue(queue)
end
return answer_with({ back, #ids, stayed })
