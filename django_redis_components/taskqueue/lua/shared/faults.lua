-- Failures of this call by queue and fingerprint; written once, at its end, by write_faults.
local faults = {}
-- How many different errors a queue keeps, and ids of tasks with each.
local MAX_FAULTS, MAX_IDS = 100, 10

-- One failure; `about` is JSON that says what the fingerprint stands for, `final` that there is no further attempt.
local function note_fault(queue, id, fingerprint, about, final, life_ms)
    local of_queue = faults[queue] or {}
    faults[queue] = of_queue
    local fault = of_queue[fingerprint] or { times = 0, final = 0, ids = {} }
    of_queue[fingerprint] = fault
    fault.times = fault.times + 1
    fault.final = fault.final + (final and 1 or 0)
    fault.about, fault.life_ms = about, life_ms
    fault.ids[#fault.ids + 1] = id
end

-- Ids of tasks, newest first, each once.
local function latest_ids(fault, before)
    local kept, known = {}, {}
    local function keep(id)
        if #kept < MAX_IDS and not known[id] then
            known[id] = true
            kept[#kept + 1] = id
        end
    end
    for at = #fault.ids, 1, -1 do
        keep(fault.ids[at])
    end
    for id in string.gmatch(before or "", "%S+") do
        keep(id)
    end
    return table.concat(kept, " ")
end

local function write_fault(queue, fingerprint, fault)
    local key = place(queue, "err:" .. fingerprint)
    local ids = latest_ids(fault, redis.call("HGET", key, "ids"))
    redis.call("HINCRBY", key, "times", fault.times)
    redis.call("HINCRBY", key, "final", fault.final)
    redis.call("HSETNX", key, "first", now_ms)
    redis.call("HSET", key, "last", now_ms, "about", fault.about, "ids", ids)
    redis.call("PEXPIRE", key, fault.life_ms)
    redis.call("ZADD", place(queue, "errs"), now_ms, fingerprint)
    redis.call("PEXPIRE", place(queue, "errs"), fault.life_ms)
end

-- Write what this call has seen fail, and drop what was not seen for longest if there are too many.
local function write_faults()
    for queue, of_queue in pairs(faults) do
        for fingerprint, fault in pairs(of_queue) do
            write_fault(queue, fingerprint, fault)
        end
        for _, fingerprint in ipairs(redis.call("ZRANGE", place(queue, "errs"), 0, -MAX_FAULTS - 1)) do
            redis.call("ZREM", place(queue, "errs"), fingerprint)
            redis.call("DEL", place(queue, "err:" .. fingerprint))
        end
    end
end
