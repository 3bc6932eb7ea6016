-- Suspects: tasks that workers have died with (field `x`: how many). Each is leased with no others in one call; one that
-- has one death left, or has seen two, only while its worker process holds no other such, or the killer's death would
-- count for the same neighbours again and again.
local MANY_DEATHS = 2
-- Most of them that one call looks behind.
local MOST_ASIDE = 10

-- The worker's such task, if it holds one.
local function on_trial()
    local id = redis.call("GET", base .. ":trial:" .. worker)
    if not id then
        return false
    end
    local seen = redis.call("HMGET", record_of(id), "s", "L")
    return seen[1] == "running" and string.sub(seen[2], 1, #worker + 1) == worker .. "/"
end

-- Lease what has come back. After a suspect the call wants no more.
local function take_front(queue)
    local front = place(queue, "front")
    local aside = {}
    while wants_more() and #aside < MOST_ASIDE do
        local id = redis.call("LPOP", front)
        if not id then
            break
        end
        local seen = redis.call("HMGET", record_of(id), "x", "D")
        local deaths = tonumber(seen[1] or 0)
        local grave = deaths >= math.min(MANY_DEATHS, tonumber(seen[2] or 3) - 1)
        if deaths > 0 and #tasks > 0 then
            redis.call("LPUSH", front, id)
            want = #tasks
        elseif deaths > 0 and grave and on_trial() then
            aside[#aside + 1] = id
        elseif lease_all({ id }, queue) and deaths > 0 then
            want = #tasks
            if grave then
                redis.call("SET", base .. ":trial:" .. worker, id, "PX", 86400000)
            end
        end
    end
    for at = #aside, 1, -1 do
        redis.call("LPUSH", front, aside[at])
    end
end
