-- Bring back what a purge put into a bin, before what has come since; a part of it in one call. A task whose unique
-- key another has by now is cancelled.
-- Precondition: none; called again while something is left.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] bin  id of the bin
-- ARGV[3] limit  look at so many tasks, at most
-- ARGV[4] op  id of the operation, new for each
-- DERIVED base:q:<queue>:prio, :sched zsets, base:bin:<bin>:* lists and zsets, base:bins zset, base:t:<id> hash,
--         base:bell:* zset, base:seq string, base:op:<op> string, base:u:<digest> string, base:queues zset
-- Returns {n, left}: n tasks brought back by this call; left 1 when another call finds more, else 0
-- Cost: O(limit log n)
local base = KEYS[1]
local queue = ARGV[1]
local bin = ARGV[2]
local limit = tonumber(ARGV[3])
local op = ARGV[4]
-- @include clock
-- @include places
-- @include finish
-- @include tally
-- @include unique
-- @include once
-- @include bins

local before = answered()
if before then
    return before
end
local name = queue .. "/" .. bin
if not redis.call("ZSCORE", base .. ":bins", name) then
    return { 0, 0 }
end

-- By priority, so that they are served in their order while workers fetch: before all others of the queue, or
-- between those with a priority above 0 and those without.
local PRIORITIES = { front = 150, limited = 0.5, ready = 0.5 }

local back = 0
for _, taken in ipairs(take_from(bin, limit)) do
    local id, part, score = taken[1], taken[2], taken[3]
    local seen = redis.call("HMGET", record_of(id), "q", "s", "u", "W", "p", "n")
    if seen[1] and seen[2] ~= "cancelled" and seen[3] and reclaim(id, seen[3]) then
        -- Another has its place by now.
        redis.call("HSET", record_of(id), "s", "cancelled", "F", now_us)
        redis.call("PEXPIRE", record_of(id), 600000)
        tell_waiters(id, seen[4])
        tally(queue, seen[6], "cancelled")
    elseif seen[1] and seen[2] ~= "cancelled" then
        if score then
            redis.call("ZADD", place(queue, part), score, id)
        else
            if part == "limited" then
                redis.call("HSET", record_of(id), "s", "ready")
            end
            rank(queue, id, part == "limited" and seen[5] or PRIORITIES[part])
        end
        back = back + 1
    end
end
local left = is_left(bin) and 1 or 0
if left == 0 then
    redis.call("ZREM", base .. ":bins", name)
end
if back > 0 then
    redis.call("ZADD", base .. ":queues", "NX", now_ms, queue)
    ring_queue(queue)
    ring("poller")
end
write_tallies()
return answer_with({ back, left })
