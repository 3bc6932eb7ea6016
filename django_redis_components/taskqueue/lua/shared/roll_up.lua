-- Add the minutes that have ended to the hours of these queues, the chunk that begins at rank `first`: each minute
-- once, a few of them in one call.
local function roll_up(queues, first)
    local mark = base .. ":rolled" .. (first > 0 and ":" .. math.ceil(first / 500) or "")
    local latest = math.floor(now_ms / 60000)
    local rolled = tonumber(redis.call("GET", mark) or latest - 2)
    rolled = math.max(math.min(rolled, latest - 1), latest - 170)
    for minute = rolled + 1, math.min(latest - 1, rolled + 5) do
        for _, queue in ipairs(queues) do
            local counters = redis.call("GETRANGE", place(queue, "min:" .. minute), 0, 415)
            local add = { "BITFIELD", place(queue, "hour:" .. math.floor(minute / 60)), "OVERFLOW", "SAT" }
            for at = 0, math.floor(#counters / 4) - 1 do
                local count = struct.unpack(">I4", counters, at * 4 + 1)
                if count > 0 then
                    local size = #add
                    add[size + 1], add[size + 2], add[size + 3], add[size + 4] = "INCRBY", "u32", "#" .. at, count
                end
            end
            if #add > 4 then
                redis.call(unpack(add))
                redis.call("PEXPIRE", add[2], 1213200000)
            end
        end
        rolled = minute
    end
    redis.call("SET", mark, rolled, "PX", 10800000)
end
