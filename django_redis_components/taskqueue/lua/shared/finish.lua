-- One more worker in the list of those that ran a task. Of many the last ones stay; "+n," before them counts those that
-- went.
local function joined(list, item)
    local all = list and (list .. "," .. item) or item
    while #all > 4000 do
        local gone, left = string.match(all, "^%+(%d+),[^,]*,(.+)$")
        if string.sub(all, 1, 1) ~= "+" then
            gone, left = 0, string.match(all, "^[^,]*,(.+)$")
        end
        if not left then
            break
        end
        all = string.format("+%d,%s", gone + 1, left)
    end
    return all
end

-- Wake those who wait for the result.
local function tell_waiters(id, waiters)
    if waiters then
        local bell = record_of(id) .. ":done"
        for _ = 1, math.min(tonumber(waiters), 1000) do
            redis.call("RPUSH", bell, "1")
        end
        redis.call("PEXPIRE", bell, 60000)
    end
end

local function add_error(id, payload, ttl_ms)
    local errors = record_of(id) .. ":errors"
    redis.call("RPUSH", errors, payload)
    redis.call("LTRIM", errors, -50, -1)
    redis.call("PEXPIRE", errors, ttl_ms)
end

-- Keep a failed task where people look for it.
local function shelve(id, queue, ttl_ms, limit)
    local failed = place(queue, "failed")
    redis.call("ZADD", failed, now_us / 1000, id)
    redis.call("ZREMRANGEBYRANK", failed, 0, -tonumber(limit) - 1)
    redis.call("PEXPIRE", failed, ttl_ms)
    redis.call("PEXPIRE", record_of(id), ttl_ms)
end
