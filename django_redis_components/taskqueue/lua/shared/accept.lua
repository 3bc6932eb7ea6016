-- @include limit_sent
-- @include moments

-- What only some tasks have: a key that no other may have at the time, a moment after which it is not begun.
-- The value is the other task that has the key.
local function accept_limits(id, unique, expires, at_us, due_ms)
    if unique ~= "" then
-- @include unique
        local wanted, ttl_ms = string.match(unique, "^(%S+) ?(%d*)$")
        local other = claim(id, wanted, ttl_ms ~= "" and ttl_ms or nil)
        if other then
            return other
        end
        redis.call("HSET", record_of(id), "u", wanted)
    end
    if expires ~= "" then
        redis.call("HSET", record_of(id), "X", expiry(expires, at_us, due_ms))
    end
end

-- When the last one was accepted. Who comes first in a line follows from that, so those of one call are a microsecond
-- apart; accepting one takes longer.
local accepted_us = now_us - 1
-- Ids for the ready lists, by queue: they are put there together, by push_ready.
local ready = {}

-- Accept one task, unless it is there already: its record and its place, but for one in the ready list.
-- `first` to `last`: where the record's pairs of field and value stand in ARGV.
-- `unique`, `expires`: as enqueue.lua has them, or empty. The value is a table if another task has the unique key.
local function accept(id, queue, due, priority, unique, expires, first, last)
    local record = record_of(id)
    local accepted = redis.call("HGET", record, "e")
    if accepted then
        return tonumber(accepted)
    end
    local at_us = accepted_us + 1
    local due_ms = due ~= "" and moment(due, at_us) or 0
    local other = (unique ~= "" or expires ~= "") and accept_limits(id, unique, expires, at_us, due_ms)
    if other then
        return { other, redis.call("HGETALL", record_of(other)) }
    end
    if not ready[queue] then
        redis.call("ZADD", base .. ":queues", "NX", now_ms, queue)
        ready[queue] = {}
    end
    accepted_us = at_us
    redis.call("HSET", record, "q", queue, "e", accepted_us, unpack(ARGV, first, last))
    note_limits(first, last)
    if due_ms > math.floor(at_us / 1000) then
        redis.call("HSET", record, "d", due_ms)
        schedule(queue, id, due_ms)
    elseif priority ~= 0 then
        rank(queue, id, priority)
        ring_queue(queue)
    else
        table.insert(ready[queue], id)
    end
    return accepted_us
end

-- Put the accepted tasks into the ready lists, in the order in which they were accepted; at most 1,000 in a call.
local function push_ready()
    for queue, ids in pairs(ready) do
        if #ids > 0 then
            redis.call("RPUSH", place(queue, "ready"), unpack(ids))
            ring_queue(queue)
        end
    end
end
