-- What happens in this call, by queue and task name; write_tallies writes it once, at the end of the call.
-- Positions of the 32-bit counters, see metrics.py: 8 events, 48 buckets of waiting, 48 of running.
local EVENTS =
    { succeeded = 0, failed = 1, retried = 2, put_off = 3, recovered = 4, cancelled = 5, expired = 6, parked = 7 }
local tallies = {}

-- Under 1 ms, then two buckets for each doubling; the last one has no end.
local function bucket(us)
    return us < 1000 and 0 or math.min(47, 1 + math.floor(math.log(us / 1000) * 2.885390081777927))
end

-- One event of one task; waited_us and ran_us are nil where it did not run.
local function tally(queue, name, event, waited_us, ran_us)
    local names = tallies[queue]
    if not names then
        names = {}
        tallies[queue] = names
    end
    local counts = names[name]
    if not counts then
        counts = {}
        names[name] = counts
    end
    local at = EVENTS[event]
    counts[at] = (counts[at] or 0) + 1
    if ran_us then
        at = 8 + bucket(waited_us)
        counts[at] = (counts[at] or 0) + 1
        at = 56 + bucket(ran_us)
        counts[at] = (counts[at] or 0) + 1
    end
end

-- Where the counters of a name stand among those of its queue: 1 to 30, then 0. They are given out anew each hour.
local function slot_of(queue, name)
    local names = place(queue, "names:" .. math.floor(now_ms / 3600000))
    local slot = redis.call("HGET", names, name)
    if not slot then
        slot = redis.call("HLEN", names) + 1
        if slot > 30 then
            return 0
        end
        redis.call("HSET", names, name, slot)
        redis.call("PEXPIRE", names, 14460000)
    end
    return slot
end

-- Two commands for each queue and task name, however many tasks there were. Counters stop at their highest value.
local function write_tallies()
    for queue, names in pairs(tallies) do
        local minute = place(queue, "min:" .. math.floor(now_ms / 60000))
        for name, counts in pairs(names) do
            local add, size = { "BITFIELD", minute, "OVERFLOW", "SAT" }, 4
            local slot = slot_of(queue, string.sub(name, 1, 200)) * 104
            for at, by in pairs(counts) do
                add[size + 1], add[size + 2], add[size + 3], add[size + 4] = "INCRBY", "u32", "#" .. at, by
                add[size + 5], add[size + 6], add[size + 7], add[size + 8] = "INCRBY", "u32", "#" .. (slot + at), by
                size = size + (slot > 0 and 8 or 4)
            end
            -- A counter that is no more than what was added may be the first of a new key: that gets its life.
            if redis.call(unpack(add, 1, size))[1] == add[8] then
                redis.call("PEXPIRE", minute, 10860000, "NX")
            end
        end
    end
    tallies = {}
end

-- One more run in a task's history: what it came to, when it was leased, how long that lasted, and the worker.
local function with_run(history, event, leased_us, by)
    local run = string.format("%s %s %.0f %s", event, leased_us, now_us - leased_us, by)
    local all = history and history .. "\n" .. run or run
    while #all > 4000 do
        all = string.match(all, "\n(.*)")
    end
    return all
end
