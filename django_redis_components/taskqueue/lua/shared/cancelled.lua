-- The end of a task that was cancelled: those who wait, its unique key and its flow hear of it.
local function end_cancelled(id, ttl_ms)
    local record = record_of(id)
    redis.call("HSET", record, "s", "cancelled", "F", now_us)
    redis.call("PEXPIRE", record, ttl_ms)
    local seen = redis.call("HMGET", record, "W", "u", "c")
    tell_waiters(id, seen[1])
    if seen[2] then
        let_go(id, seen[2], false)
    end
    if seen[3] then
        flow_breaks(id, seen[3], "was cancelled")
    end
end
