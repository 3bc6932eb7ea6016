-- A rate is kept by GCRA: a start moves the time of the next by an interval, and may come before it by a tolerance.
-- Of those who wait for it in a queue the first is called: it stands in the scheduled zset for the exact moment.

local function pace_of(limits)
    local interval_us, tolerance_us = string.match(newest(limits.rate, limits.pace), "^(%d+)/(%d+)")
    return tonumber(interval_us), tonumber(tolerance_us)
end

local function set_rate(limits, next_us)
    local life_ms = math.ceil((next_us - now_us) / 1000)
    redis.call("SET", base .. ":rate:" .. limits.rate, string.format("%.0f", next_us), "PX", life_ms)
end

-- When the next task may start, in microseconds; in the past if it may now. Never later than a whole interval from now:
-- of a rate that was raised, the old interval ends.
local function next_start_us(limits)
    local interval_us, tolerance_us = pace_of(limits)
    local next_us = tonumber(redis.call("GET", base .. ":rate:" .. limits.rate) or 0)
    local latest_us = now_us + interval_us + tolerance_us
    if next_us > latest_us then
        set_rate(limits, latest_us)
        next_us = latest_us
    end
    return next_us - tolerance_us
end

local function count_start(limits)
    local interval_us, tolerance_us = pace_of(limits)
    set_rate(limits, math.max(next_start_us(limits) + tolerance_us, now_us) + interval_us)
end

-- Put a task down for the moment at which it may start.
local function book(queue, line, start_us)
    local due_ms = start_us <= now_us and now_ms or math.ceil(start_us / 1000)
    redis.call("HSET", place(queue, "called"), string.match(line, "^[^\t]+"), line)
    redis.call("HSET", record_of(id_in(line)), "s", "scheduled", "d", due_ms)
    redis.call("ZADD", place(queue, "sched"), due_ms, id_in(line))
end

-- Book for the first who waits in the task's queue.
local function call_next(limits)
    local line = first_in_line(limits.rate, limits.queue)
    if line then
        redis.call("ZREM", place(limits.queue, "limited"), line)
        book(limits.queue, line, next_start_us(limits))
    else
        redis.call("HDEL", place(limits.queue, "called"), limits.rate)
    end
end

-- A task that waits has been cancelled or moved: who comes after it shall not wait for it. Returns how many places in
-- lines it had.
local function pass_on(id, queue)
    local limits = limits_of(id, queue)
    if not limits then
        return 0
    end
    local left = 0
    if limits.slots then
        left = redis.call("ZREM", place(queue, "limited"), limits.slot_line)
        offer_slot(limits.slots, limits.most, queue)
    end
    if limits.rate then
        left = left + redis.call("ZREM", place(queue, "limited"), limits.rate_line)
        if redis.call("HGET", place(queue, "called"), limits.rate) == limits.rate_line then
            call_next(limits)
            ring_queue(queue)
            ring("poller")
        end
    end
    return left
end
