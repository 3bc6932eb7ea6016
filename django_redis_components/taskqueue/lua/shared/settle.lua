-- Outcomes of a run, by name. Each gets: id, record, queue, payload, delay_ms, ttl_ms, and the workers that
-- ran it, this one included; those whose body did not begin, or does not count, leave the workers as they were.
-- The last one is the history with this run; a success needs none, the record's other fields tell of its run.
local outcomes = {}

function outcomes.ok(id, record, queue, payload, delay_ms, ttl_ms, workers)
    redis.call("HSET", record, "s", "successful", "F", now_us, "r", payload, "w", workers)
    redis.call("PEXPIRE", record, ttl_ms)
end

function outcomes.fail(id, record, queue, payload, delay_ms, ttl_ms, workers, history)
    redis.call("HSET", record, "s", "failed", "F", now_us, "w", workers, "h", history)
    add_error(id, payload, ttl_ms)
    shelve(id, queue, ttl_ms, failed_limit)
end

function outcomes.retry(id, record, queue, payload, delay_ms, ttl_ms, workers, history)
    local due_ms = now_ms + tonumber(delay_ms)
    redis.call("HSET", record, "s", "retrying", "d", due_ms, "w", workers, "h", history)
    redis.call("HINCRBY", record, "a", 1)
    add_error(id, payload, ttl_ms)
    schedule(queue, id, due_ms)
end

-- Put off by the task itself: no attempt is used.
function outcomes.later(id, record, queue, payload, delay_ms, ttl_ms, workers, history)
    local due_ms = now_ms + tonumber(delay_ms)
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

-- Outcomes after which a task runs again, unless it was asked to end (`o`, "force_at_ms ttl_ms").
local AGAIN = { retry = true, later = true, back = true, park = true }

-- What each outcome counts as; what did not begin counts as nothing.
local COUNTED =
    { ok = "succeeded", fail = "failed", retry = "retried", later = "put_off", park = "parked", cancel = "cancelled" }

-- Count one outcome. `note`: microseconds that the body ran; after a failure also its fingerprint, and what that means.
local function count_outcome(id, outcome, event, note, ttl_ms, seen)
    local ran_us = tonumber(note)
    if not ran_us then
        local ran, fingerprint, about = string.match(note, "^(%d+) (%x+) (.*)")
        ran_us = tonumber(ran)
        if fingerprint then
            note_fault(seen[3], id, fingerprint, about, outcome == "fail", ttl_ms)
        end
    end
    local since_us = tonumber(seen[9])
    if seen[10] then
        since_us = math.max(since_us, tonumber(seen[10]) * 1000)
    end
    if seen[11] then
        since_us = math.max(since_us, tonumber(seen[11]))
    end
    tally(seen[3], seen[8], event, seen[12] - since_us, ran_us)
end

-- Apply one outcome if the lease is still the one it was earned under.
-- 1 applied, 2 applied before (the reply was lost), 0 somebody else's by now.
local function settle(id, token, outcome, payload, delay_ms, ttl_ms, note)
    local record = record_of(id)
    local seen = redis.call("HMGET", record, "L", "s", "q", "w", "W", "u", "c", "n", "e", "d", "t", "l", "C", "o")
    if seen[1] ~= token then
        return 0
    end
    if seen[2] ~= "running" then
        return 2
    end
    local queue = seen[3]
    redis.call("ZREM", place(queue, "running"), id)
    if seen[13] then
        limits().free_slot(id, queue, seen[13])
    end
    local workers = joined(seen[4], worker)
    if seen[14] and AGAIN[outcome] then
        workers = outcome == "retry" and workers or seen[4] or ""
        outcome, ttl_ms = "cancel", string.match(seen[14], "%d+$")
    end
    local event, history = COUNTED[outcome], nil
    if event then
        count_outcome(id, outcome, event, note, ttl_ms, seen)
        if outcome ~= "ok" then
            history = with_run(redis.call("HGET", record, "h"), event, seen[12], worker)
        end
    end
    outcomes[outcome](id, record, queue, payload, delay_ms, ttl_ms, workers, history)
    if outcome == "ok" or outcome == "fail" then
        tell_waiters(id, seen[5])
        if seen[6] then
            let_go(id, seen[6], true)
        end
    end
    if seen[7] and outcome == "ok" then
        flow_goes_on(id, seen[7])
    elseif seen[7] and outcome == "fail" then
        flow_breaks(id, seen[7], "failed")
    end
    return 1
end
