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
            ends().note_fault(seen[3], id, fingerprint, about, outcome == "fail", ttl_ms)
        end
    end
    local since_us = tonumber(seen[9])
    if seen[10] then
        since_us = math.max(since_us, tonumber(seen[10]) * 1000)
    end
    if seen[11] then
        since_us = math.max(since_us, tonumber(seen[11]))
    end
    records().tally(seen[3], seen[8], event, seen[12] - since_us, ran_us)
end

-- A success needs no history: the record's other fields tell of its run.
local function succeed(id, record, payload, ttl_ms, workers, seen)
    redis.call("HSET", record, "s", "successful", "F", now_text, "r", payload, "w", workers)
    redis.call("PEXPIRE", record, ttl_ms)
    if seen[5] then
        ends().tell_waiters(id, seen[5])
    end
    if seen[6] then
        ends().let_go(id, seen[6], true)
    end
    if seen[7] then
        ends().flow_goes_on(id, seen[7])
    end
end

local function end_otherwise(id, record, outcome, payload, delay_ms, ttl_ms, workers, history, seen)
    ends().outcomes[outcome](id, record, seen[3], payload, delay_ms, ttl_ms, workers, history)
    if outcome == "fail" then
        ends().tell_waiters(id, seen[5])
        if seen[6] then
            ends().let_go(id, seen[6], true)
        end
        if seen[7] then
            ends().flow_breaks(id, seen[7], "failed")
        end
    end
end

-- Ids that do not run any more, by queue: taken out of its leases together, by end_leases.
local settled = {}

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
    local ids = settled[queue] or {}
    settled[queue] = ids
    ids[#ids + 1] = id
    if seen[13] then
        limits().free_slot(id, queue, seen[13])
    end
    local workers = seen[4] and ends().joined(seen[4], worker) or worker
    if seen[14] and AGAIN[outcome] then
        workers = outcome == "retry" and workers or seen[4] or ""
        outcome, ttl_ms = "cancel", string.match(seen[14], "%d+$")
    end
    local event, history = COUNTED[outcome], nil
    if event then
        count_outcome(id, outcome, event, note, ttl_ms, seen)
    end
    if outcome == "ok" then
        succeed(id, record, payload, ttl_ms, workers, seen)
        return 1
    end
    if event then
        history = records().with_run(redis.call("HGET", record, "h"), event, seen[12], worker)
    end
    end_otherwise(id, record, outcome, payload, delay_ms, ttl_ms, workers, history, seen)
    return 1
end

-- At most 500 outcomes are settled in a call, so no command has more ids.
local function end_leases()
    for queue, ids in pairs(settled) do
        redis.call("ZREM", place(queue, "running"), unpack(ids))
    end
end
