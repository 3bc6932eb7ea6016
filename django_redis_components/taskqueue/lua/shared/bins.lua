local function in_bin(bin, part)
    return base .. ":bin:" .. bin .. ":" .. part
end

-- The parts of a bin in the order in which their tasks would have been served.
local PARTS = { "front", "limited", "ready", "prio", "sched" }

-- Take tasks out of a bin: {id, part, score of one that waited for its time or had a priority}.
local function take_from(bin, limit)
    local taken = {}
    for _, part in ipairs(PARTS) do
        local from, left = in_bin(bin, part), limit - #taken
        if left > 0 and (part == "front" or part == "ready") then
            for _, id in ipairs(redis.call("LPOP", from, left) or {}) do
                taken[#taken + 1] = { id, part }
            end
        elseif left > 0 then
            local popped = redis.call("ZPOPMIN", from, left)
            for at = 1, #popped, 2 do
                local waited = part == "limited"
                taken[#taken + 1] = { string.match(popped[at], "[^\t]+$"), part, not waited and popped[at + 1] }
            end
        end
    end
    return taken
end

local function is_left(bin)
    local left = 0
    for _, part in ipairs(PARTS) do
        left = left + redis.call("EXISTS", in_bin(bin, part))
    end
    return left > 0
end
