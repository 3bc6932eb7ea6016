-- The gate of tasks with limits.

-- `t`, the time, tells that no purge before it has taken the task.
local function stand_in_line(queue, line)
    redis.call("HSET", record_of(id_in(line)), "t", now_us)
    redis.call("ZADD", place(queue, "limited"), 0, line)
end

-- Whether a slot is free and the turn is this task's. If not, it waits for a slot.
local function has_slot(limits)
    local slots, queue = limits.slots, limits.queue
    local free = free_slots(slots, limits.most)
    if free <= 0 then
        free = free + free_lost_slot(slots)
    end
    local first = free > 0 and first_in_line(slots, queue)
    if free > 0 and not (first and first < limits.slot_line) then
        return true
    end
    if first then
        call_up(queue, first)
    end
    stand_in_line(queue, limits.slot_line)
    redis.call("ZADD", base .. ":waits:" .. slots, now_ms, queue)
    redis.call("PEXPIRE", base .. ":waits:" .. slots, LIMIT_TTL_MS)
    return false
end

-- Who else is called for a rate in this queue, and is still there.
local function called_before(limits)
    local called = redis.call("HGET", place(limits.queue, "called"), limits.rate)
    if called and called ~= limits.rate_line and redis.call("EXISTS", record_of(id_in(called))) == 1 then
        return called
    end
end

-- Whether the rate and the turn let this task start. If not, it is booked for the moment, or waits behind another.
local function has_turn(limits)
    local queue, line = limits.queue, limits.rate_line
    local sched, start_us, called = place(queue, "sched"), next_start_us(limits), called_before(limits)
    if called and called < line then
        local interval_us = pace_of(limits)
        redis.call("ZADD", sched, "XX", "LT", math.ceil(math.max(start_us, now_us) / 1000), id_in(called))
        stand_in_line(queue, line)
        local ahead = redis.call("ZLEXCOUNT", place(queue, "limited"), "[" .. limits.rate .. "\t", "[" .. line)
        local due_ms = math.ceil((math.max(start_us, now_us) + ahead * interval_us) / 1000)
        redis.call("HSET", record_of(limits.id), "s", "scheduled", "d", due_ms)
        return false
    end
    if start_us <= now_us then
        return true
    end
    if called and redis.call("ZREM", sched, id_in(called)) == 1 then
        redis.call("ZADD", place(queue, "limited"), 0, called)
    end
    book(queue, line, start_us)
    return false
end

-- Whether the limits of a task let it begin now; then its slot is taken, and its start counted.
local function passes(id, queue)
    local limits = limits_of(id, queue)
    if limits.slots and not has_slot(limits) then
        return false
    end
    if limits.rate and not has_turn(limits) then
        if limits.slots then
            offer_slot(limits.slots, limits.most, queue)
        end
        return false
    end
    if limits.slots then
        redis.call("ZADD", base .. ":slots:" .. limits.slots, now_ms, id)
        if redis.call("EXISTS", place(queue, "front")) == 0 then
            offer_here(limits.slots, limits.most, queue)
        end
    end
    if limits.rate then
        count_start(limits)
        if not called_before(limits) then
            call_next(limits)
        end
    end
    return true
end
