-- @include limit_sent

-- What only some tasks have: a key that no other may have at the time, a moment after which it is not begun.
-- The value is the other task that has the key.
local function accept_limits(id, unique, expires, due_ms)
    if unique ~= "" then
        local wanted, ttl_ms = string.match(unique, "^(%S+) ?(%d*)$")
        local other = claim(id, wanted, ttl_ms ~= "" and ttl_ms or nil)
        if other then
            return other
        end
        redis.call("HSET", record_of(id), "u", wanted)
    end
    if expires ~= "" then
        redis.call("HSET", record_of(id), "X", expiry(expires, due_ms))
    end
end

-- Accept one task, unless it is there already: its record, its place in the queue, a ring of the bell.
-- `first`: where the record's pairs of field and value begin in ARGV; they go to its end.
-- `unique`, `expires`: as enqueue.lua has them, or empty. The value is a table if another task has the unique key.
local function accept(id, queue, due, priority, first, unique, expires)
    local record = record_of(id)
    local accepted = redis.call("HGET", record, "e")
    if accepted then
        return tonumber(accepted)
    end
    local due_ms = due ~= "" and moment(due, now_ms) or 0
    local other = (unique ~= "" or expires ~= "") and accept_limits(id, unique, expires, due_ms)
    if other then
        return { other, redis.call("HGETALL", record_of(other)) }
    end
    redis.call("ZADD", base .. ":queues", "NX", now_ms, queue)
    redis.call("HSET", record, "q", queue, "e", now_us, unpack(ARGV, first))
    note_limits(first, #ARGV)
    if due_ms > now_ms then
        redis.call("HSET", record, "d", due_ms)
        schedule(queue, id, due_ms)
    elseif priority ~= 0 then
        rank(queue, id, priority)
        ring_queue(queue)
    else
        redis.call("RPUSH", place(queue, "ready"), id)
        ring_queue(queue)
    end
    return now_us
end
