-- Whether a task comes too late to begin: nobody has run it (`w`), and it was to begin before (`X`, "ms ttl_ms").
local function has_expired(expires, workers)
    return expires and not workers and tonumber(string.match(expires, "^%d+")) <= now_ms
end

-- Unique tasks. Field `u` of a record says how the task holds its key, and which one it is: "f<digest>" until it has
-- finished, "s<digest>" until it has started, "t<digest>" for a time. The key has the task's id.
local function unique_key(unique)
    return base .. ":u:" .. string.sub(unique, 2)
end

-- Whether a task lies in the bin of a purge: it waits, but in none of the queue's places.
local function was_purged(id, queue, state, placed_us)
    if state == "parked" or state == "waiting" then
        return false
    end
    local purged_us = tonumber(redis.call("GET", place(queue, "purged")) or 0)
    return tonumber(placed_us) <= purged_us
        and not redis.call("ZSCORE", place(queue, "prio"), id)
        and not redis.call("ZSCORE", place(queue, "sched"), id)
end

-- Whether the task that has the key stands in the way of another that wants it in its own manner.
local function stands(id, manner)
    local seen = redis.call("HMGET", record_of(id), "q", "s", "e", "t", "X", "w")
    local state = seen[2]
    if not seen[1] or state == "cancelled" or state == "expired" then
        return false
    end
    if state == "successful" or state == "failed" then
        return manner == "t"
    end
    if state == "running" then
        return manner ~= "s"
    end
    return not has_expired(seen[5], seen[6]) and not was_purged(id, seen[1], state, seen[4] or seen[3])
end

-- Have the key, unless another task has it: then its id is the value.
local function claim(id, unique, ttl_ms)
    local key = unique_key(unique)
    local other = redis.call("GET", key)
    if other and other ~= id and stands(other, string.sub(unique, 1, 1)) then
        return other
    end
    redis.call("SET", key, id, unpack(ttl_ms and { "PX", ttl_ms } or {}))
end

-- Have it again after the task has come back. One that was held for a time had its time.
local function reclaim(id, unique)
    return string.sub(unique, 1, 1) ~= "t" and claim(id, unique) or nil
end

-- Give the key up at the task's end. What is held for a time stays if the task `ran`, and so does its record.
local function let_go(id, unique, ran)
    local key = unique_key(unique)
    if redis.call("GET", key) ~= id then
        return
    end
    if not (ran and string.sub(unique, 1, 1) == "t") then
        redis.call("DEL", key)
        return
    end
    local left_ms = redis.call("PTTL", key)
    for _, kept in ipairs({ record_of(id), record_of(id) .. ":errors" }) do
        redis.call("PEXPIRE", kept, left_ms, "GT")
    end
end
