local function free_slots(limit, most)
    return tonumber(newest(limit, most)) - redis.call("ZCARD", base .. ":slots:" .. limit)
end

-- If a slot is free, call up who waits for it first in a queue. Returns whether anybody waits.
local function offer_here(limit, most, queue)
    local line = first_in_line(limit, queue)
    if line and free_slots(limit, most) > 0 then
        call_up(queue, line)
    end
    return line
end

-- The same in each queue: some may be paused, or have no worker now. Who comes too late stands in line again, in its
-- old place.
local function offer_slot(limit, most, queue)
    offer_here(limit, most, queue)
    local waits = base .. ":waits:" .. limit
    for _, other in ipairs(redis.call("ZRANGE", waits, 0, 99)) do
        if other ~= queue and not offer_here(limit, most, other) then
            redis.call("ZREM", waits, other)
        end
    end
end

-- Take back the slot of the oldest holder if it does not run: somebody has deleted its record. The value is 1 then, else 0.
local function free_lost_slot(limit)
    local holders = base .. ":slots:" .. limit
    local oldest = redis.call("ZRANGE", holders, 0, 0)[1]
    if oldest and redis.call("HGET", record_of(oldest), "s") ~= "running" then
        return redis.call("ZREM", holders, oldest)
    end
    return 0
end

-- A task does not run any more; `said` is the field C of its record.
local function free_slot(id, queue, said)
    local limit, most = read_limit("C", said)
    redis.call("ZREM", base .. ":slots:" .. limit, id)
    offer_slot(limit, most, queue)
end
