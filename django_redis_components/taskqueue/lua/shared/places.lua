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
local function schedule(queue, id, due_ms)
    local sched = place(queue, "sched")
    redis.call("ZADD", sched, due_ms, id)
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
