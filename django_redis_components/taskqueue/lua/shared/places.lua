local function record_of(id)
    return base .. ":t:" .. id
end

local function place(queue, part)
    return base .. ":q:" .. queue .. ":" .. part
end

-- A bell nobody waits for vanishes; its worker fetches before it first waits.
local function ring(name)
    local bell = base .. ":bell:" .. name
    if redis.call("ZADD", bell, 0, "1") == 1 then
        redis.call("PEXPIRE", bell, 60000)
    end
end

-- Whether a stored pause ("until_ms|…", until 0: without an end) has ended, though nobody has dropped it yet.
local function has_ended(pause)
    local until_ms = tonumber(string.match(pause, "^%d+"))
    local time = redis.call("TIME")
    return until_ms > 0 and until_ms <= time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A paused queue has nothing to hear of; resuming rings.
local function ring_queue(queue)
    local pause = redis.call("HGET", base .. ":paused", queue)
    if not pause or has_ended(pause) then
        ring("q:" .. queue)
    end
end

-- Put a task off. Whoever times the queue's next due task must hear of an earlier one.
-- Tasks due in one millisecond are served in the order of arrival: their scores are above due_ms - 1 and up to due_ms, one
-- step apart, so that a score rounded up is the due time. A double has 53 bits: 41 for the milliseconds until the year
-- 2039 leave 12, thus 4,096 steps; 48 bits until 9999 leave 5.
local function schedule(queue, id, due_ms)
    local sched = place(queue, "sched")
    local function last_score(ms)
        local above = string.format("(%.0f", ms - 1)
        return tonumber(redis.call("ZREVRANGEBYSCORE", sched, ms, above, "WITHSCORES", "LIMIT", 0, 1)[2])
    end
    local ms, last = due_ms, last_score(due_ms)
    -- All steps are used: the first millisecond behind it serves that is not full. Full ones follow each other, so a
    -- binary search finds it. Where cancelled tasks have left holes, the order may be broken by these milliseconds.
    if last and last >= ms then
        local full, free = 0, 1
        while redis.call("ZCOUNT", sched, due_ms + free, due_ms + free) > 0 do
            full, free = free, free * 2
        end
        while free - full > 1 do
            local middle = math.floor((full + free) / 2)
            if redis.call("ZCOUNT", sched, due_ms + middle, due_ms + middle) > 0 then
                full = middle
            else
                free = middle
            end
        end
        ms = due_ms + free
        last = last_score(ms)
    end
    local step = ms < 2199023255552 and 1 / 4096 or 1 / 32
    redis.call("ZADD", sched, math.min(ms, (last or ms - 1) + step), id)
    if redis.call("ZRANGE", sched, 0, 0)[1] == id then
        ring_queue(queue)
        ring("poller")
    end
end

-- Place a task by priority, then by arrival; exact below 2^53. Those above 0 come before the list, those below after it.
local function rank(queue, id, priority)
    local order = redis.call("INCR", base .. ":seq")
    redis.call("ZADD", place(queue, "prio"), -priority * 1e13 + order, id)
end
