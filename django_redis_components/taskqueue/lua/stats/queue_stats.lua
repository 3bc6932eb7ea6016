-- Read how deep each queue is, and how long its oldest waiting task has waited. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  common prefix of the tag's keys
-- ARGV[1] known  1: all that are known, up to 200, and those that are paused, and after them the named ones
-- ARGV[2..] queues  names; with known 0 these alone
-- DERIVED base:queues zset, base:paused hash, base:q:<queue>:* lists and zsets, base:t:<id> hash
-- Returns {now_us, rows}: each row {queue, ready, scheduled, running, failed, parked, oldest_us, next_due_ms,
--         paused, limited, waiting};
--         oldest_us is when the oldest task that waits for a worker was accepted or fell due, 0 when none waits; paused
--         is "until_ms|since_ms|JSON" or empty; limited is how many of the ready and scheduled ones wait for a limit;
--         waiting is how many wait for other tasks of their flows
-- Cost O(queues) times O(log n)
local base = KEYS[1]
local known = ARGV[1]
-- @include clock
-- @include places

-- When the first task of a list that has not been cancelled was accepted; among the first 100 if some have been.
local function head_of(queue, part, ghosts)
    for _, id in ipairs(redis.call("LRANGE", place(queue, part), 0, ghosts > 0 and 99 or 0)) do
        local seen = redis.call("HMGET", record_of(id), "e", "s")
        if seen[1] and seen[2] ~= "cancelled" then
            return tonumber(seen[1])
        end
    end
end

local function oldest(queue, ghosts)
    local first = 0
    local function see(at_us)
        if at_us and (first == 0 or at_us < first) then
            first = at_us
        end
    end
    see(head_of(queue, "ready", ghosts))
    see(head_of(queue, "front", ghosts))
    local best = redis.call("ZRANGE", place(queue, "prio"), 0, 0)[1]
    see(best and tonumber(redis.call("HGET", record_of(best), "e") or nil))
    local due = redis.call("ZRANGEBYSCORE", place(queue, "sched"), "-inf", now_ms, "WITHSCORES", "LIMIT", 0, 1)
    see(due[2] and math.ceil(due[2]) * 1000)
    return first
end

local function row(queue)
    local sched = place(queue, "sched")
    local due = redis.call("ZCOUNT", sched, "-inf", now_ms)
    local head = redis.call("ZRANGE", sched, 0, 0, "WITHSCORES")
    local ready = redis.call("LLEN", place(queue, "ready"))
        + redis.call("LLEN", place(queue, "front"))
        + redis.call("ZCARD", place(queue, "prio"))
    local ghosts = tonumber(redis.call("GET", place(queue, "ghosts")) or 0)
    local pause = redis.call("HGET", base .. ":paused", queue)
    local limited = redis.call("ZCARD", place(queue, "limited"))
    local for_slots = limited > 0 and redis.call("ZLEXCOUNT", place(queue, "limited"), "[c", "(d") or 0
    return {
        queue,
        ready + due + for_slots - ghosts,
        redis.call("ZCARD", sched) - due + limited - for_slots,
        redis.call("ZCARD", place(queue, "running")),
        redis.call("ZCARD", place(queue, "failed")),
        redis.call("ZCARD", place(queue, "parked")),
        oldest(queue, ghosts),
        head[2] and math.ceil(head[2]) or 0,
        pause and not has_ended(pause) and pause or "",
        limited,
        redis.call("ZCARD", place(queue, "waiting")),
    }
end

local names, listed = {}, {}
local function list(found)
    for _, queue in ipairs(found) do
        if not listed[queue] then
            listed[queue] = true
            names[#names + 1] = queue
        end
    end
end

if known == "1" then
    list(redis.call("ZRANGE", base .. ":queues", 0, 199))
    list(redis.call("HKEYS", base .. ":paused"))
end
list({ unpack(ARGV, 2) })

local rows = {}
for at, queue in ipairs(names) do
    rows[at] = row(queue)
end
return { now_us, rows }
