-- How long a queue that has nothing at all stays in the index, in milliseconds.
local FORGET_MS = 86400000

-- Drop a queue from the index when whoever looked has found nothing of it for a day; its next task enters it again.
-- The value is whether it is dropped. base:idle has queues by when they were first found so.
local function forget(queue)
    local idle = base .. ":idle"
    local keys = {}
    for at, part in ipairs({ "front", "ready", "prio", "sched", "limited", "running", "failed", "parked", "waiting" }) do
        keys[at] = place(queue, part)
    end
    if redis.call("EXISTS", unpack(keys)) > 0 or redis.call("HEXISTS", base .. ":paused", queue) == 1 then
        redis.call("ZREM", idle, queue)
        return false
    end
    redis.call("ZADD", idle, "NX", now_ms, queue)
    if tonumber(redis.call("ZSCORE", idle, queue)) > now_ms - FORGET_MS then
        return false
    end
    redis.call("ZREM", idle, queue)
    redis.call("ZREM", base .. ":queues", queue)
    redis.call("DEL", place(queue, "called"))
    return true
end

-- Drop ids from the index of those that wait for others if their records are gone: deleted by hand, or evicted. A few
-- are looked at in each round, anywhere in the index.
local function drop_lost_waiting(queue, most)
    local waiting = place(queue, "waiting")
    for _, id in ipairs(redis.call("ZRANDMEMBER", waiting, most)) do
        if redis.call("EXISTS", record_of(id)) == 0 then
            redis.call("ZREM", waiting, id)
        end
    end
end
