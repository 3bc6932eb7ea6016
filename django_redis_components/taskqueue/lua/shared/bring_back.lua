local recovered = {}

local function tell(...)
    for _, word in ipairs({ ... }) do
        recovered[#recovered + 1] = word
    end
end

-- The worker of a task is gone: it goes to the front of its queue. It has ended if somebody has cancelled it, and
-- failed if this happened too often.
local function bring_back(id, queue)
    local record = record_of(id)
    redis.call("ZREM", place(queue, "running"), id)
    local seen = redis.call("HMGET", record, "s", "x", "D", "w", "L", "W", "u", "c", "n", "l", "h", "C", "o")
    if seen[1] ~= "running" then
        return
    end
    if seen[12] then
        limits().free_slot(id, queue, seen[12])
    end
    local deliveries = tonumber(seen[2] or 0) + 1
    local dead = string.match(seen[5], "^[^/]+")
    local history = with_run(seen[11], "recovered", seen[10], dead)
    redis.call("HSET", record, "x", deliveries, "w", joined(seen[4], dead), "h", history)
    tally(queue, seen[9], "recovered")
    redis.call("HDEL", record, "L")
    if seen[13] then
        end_cancelled(id, string.match(seen[13], "%d+$"))
        tally(queue, seen[9], "cancelled")
        return tell(id, queue, "cancelled")
    end
    if deliveries >= tonumber(seen[3] or max_deliveries) then
        redis.call("HSET", record, "s", "failed", "F", now_us)
        add_error(id, lost_error, keep_ms)
        tally(queue, seen[9], "failed")
        local fingerprint, about = string.match(lost_note, "^(%x+) (.*)")
        note_fault(queue, id, fingerprint, about, true, keep_ms)
        shelve(id, queue, keep_ms, failed_limit)
        tell_waiters(id, seen[6])
        if seen[7] then
            let_go(id, seen[7], true)
        end
        if seen[8] then
            flow_breaks(id, seen[8], "failed")
        end
        return tell(id, queue, "failed")
    end
    put_back("LPUSH", id, queue, "front")
    ring_queue(queue)
    tell(id, queue, "front")
end
