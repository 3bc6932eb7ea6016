-- Most tasks that one call passes over, so that the server serves others in between.
local MOST_PASSED = 500
local passed = 0

local function wants_more()
    return #tasks < want and passed < MOST_PASSED
end

-- It has not begun in time: it ends here.
local function expire(id, record, queue, name, expires)
    redis.call("HSET", record, "s", "expired", "F", now_us)
    records().tally(queue, name, "expired")
    redis.call("PEXPIRE", record, string.match(expires, "%d+$"))
    local seen = redis.call("HMGET", record, "W", "u", "c")
    ends().tell_waiters(id, seen[1])
    if seen[2] then
        ends().let_go(id, seen[2], false)
    end
    if seen[3] then
        ends().flow_breaks(id, seen[3], "expired")
    end
end

-- Lease a popped task; the value is true. Cancelled, vanished and expired ones are passed over.
local function lease(id, queue)
    local record = record_of(id)
    local seen = redis.call("HMGET", record, "n", "b", "s", "a", "x", "e", "f", "X", "u", "C", "R")
    if not seen[2] or seen[3] == "cancelled" then
        passed = passed + 1
        if not seen[2] then
            redis.call("DEL", record) -- what was noted of a task whose record somebody had deleted
        end
        local ghosts = place(queue, "ghosts")
        if redis.call("EXISTS", ghosts) == 1 and redis.call("DECR", ghosts) <= 0 then
            redis.call("DEL", ghosts)
        end
        return
    end
    local limited = seen[10] or seen[11]
    if seen[8] and ends().has_expired(seen[8], redis.call("HGET", record, "w")) then
        passed = passed + 1
        if limited then
            limits().pass_on(id, queue)
        end
        expire(id, record, queue, seen[1], seen[8])
        return
    end
    if limited and not limits().passes(id, queue) then
        passed = passed + 1
        return
    end
    if seen[9] and string.sub(seen[9], 1, 1) == "s" then
        ends().let_go(id, seen[9], true)
    end
    local first_us = seen[7] or now_text
    redis.call("HSET", record, "s", "running", "L", token, "l", now_text, "f", first_us)
    tasks[#tasks + 1] = { id, token, seen[1], seen[2], queue, seen[4] or 0, seen[5] or 0, seen[6], first_us }
    return true
end

local lease_ends = string.format("%.0f", now_ms + lease_ms)

-- Lease popped tasks: all are entered by one command, and before anything else that could fail; those that are passed
-- over leave again. The value is whether the last one is leased.
local function lease_all(ids, queue)
    local running = place(queue, "running")
    for first = 1, #ids, 500 do
        local entries = {}
        for at = first, math.min(first + 499, #ids) do
            entries[#entries + 1] = lease_ends
            entries[#entries + 1] = ids[at]
        end
        redis.call("ZADD", running, unpack(entries))
    end
    local leased
    for _, id in ipairs(ids) do
        leased = lease(id, queue)
        if not leased then
            redis.call("ZREM", running, id)
        end
    end
    return leased
end

-- @include suspects

local function take_due(queue)
    local sched = place(queue, "sched")
    while wants_more() do
        local due = redis.call("ZRANGEBYSCORE", sched, "-inf", now_ms, "LIMIT", 0, want - #tasks)
        if #due == 0 then
            break
        end
        redis.call("ZREMRANGEBYRANK", sched, 0, #due - 1)
        lease_all(due, queue)
    end
end

-- In strict order: what came back, what is due, then by priority. The value is whether there were none but ready tasks.
local function take(queue)
    local prio, ready = place(queue, "prio"), place(queue, "ready")
    local plain = redis.call("EXISTS", prio, place(queue, "front"), place(queue, "sched")) == 0
    if not plain then
        take_front(queue)
        take_due(queue)
    end
    while wants_more() do
        local best = plain and {} or redis.call("ZRANGE", prio, 0, 0, "WITHSCORES")
        local urgent = best[1] and (tonumber(best[2]) < 0 or redis.call("EXISTS", ready) == 0)
        if urgent then
            redis.call("ZREM", prio, best[1])
            lease_all({ best[1] }, queue)
        else
            local popped = redis.call("LPOP", ready, best[1] and 1 or want - #tasks)
            if not popped then
                break
            end
            lease_all(popped, queue)
        end
    end
    return plain
end
