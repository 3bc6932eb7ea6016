-- Outcomes of a run but success, by name. Each gets: id, record, queue, payload, delay_ms, ttl_ms, and the workers that
-- ran it, this one included; those whose body did not begin, or does not count, leave the workers as they were.
-- The last one is the history with this run.
local outcomes = {}

-- A delay is rounded up to the next millisecond: nothing is due before it has passed.
local function due_after(delay_ms)
    return tonumber(delay_ms) > 0 and math.ceil(now_us / 1000) + tonumber(delay_ms) or now_ms
end

function outcomes.fail(id, record, queue, payload, delay_ms, ttl_ms, workers, history)
    redis.call("HSET", record, "s", "failed", "F", now_us, "w", workers, "h", history)
    add_error(id, payload, ttl_ms)
    shelve(id, queue, ttl_ms, failed_limit)
end

function outcomes.retry(id, record, queue, payload, delay_ms, ttl_ms, workers, history)
    local due_ms = due_after(delay_ms)
    redis.call("HSET", record, "s", "retrying", "d", due_ms, "w", workers, "h", history)
    redis.call("HINCRBY", record, "a", 1)
    add_error(id, payload, ttl_ms)
    schedule(queue, id, due_ms)
end

-- Put off by the task itself: no attempt is used.
function outcomes.later(id, record, queue, payload, delay_ms, ttl_ms, workers, history)
    local due_ms = due_after(delay_ms)
    redis.call("HSET", record, "s", "scheduled", "d", due_ms, "h", history)
    schedule(queue, id, due_ms)
end

-- Leased, but not begun: back to the front.
function outcomes.back(id, record, queue, payload, delay_ms, ttl_ms)
    local seen = redis.call("HMGET", record, "h", "u")
    -- A line of the history is "<outcome> <leased_us> …": the last one tells of the lease before this one.
    local last_us = seen[1] and string.match("\n" .. seen[1], "\n%S+ (%d+)[^\n]*$")
    if last_us then
        redis.call("HSET", record, "l", last_us)
    else
        redis.call("HDEL", record, "f", "l")
    end
    if seen[2] then
        reclaim(id, seen[2])
    end
    put_back("LPUSH", id, queue, "front")
    ring_queue(queue)
end

function outcomes.park(id, record, queue, payload, delay_ms, ttl_ms, workers, history)
    redis.call("HSET", record, "s", "parked", "h", history)
    redis.call("ZADD", place(queue, "parked"), now_us / 1000, id)
end

-- It was cancelled while it ran; `payload` may be the error that ended its last attempt.
function outcomes.cancel(id, record, queue, payload, delay_ms, ttl_ms, workers, history)
    redis.call("HSET", record, "w", workers, "h", history)
    if payload ~= "" then
        add_error(id, payload, ttl_ms)
    end
    end_cancelled(id, ttl_ms)
end
