-- Delete a task that may have a unique key, and may be one of a flow which counts on it.
local ENDED = { successful = true, failed = true, cancelled = true, expired = true }

local function abandon(id)
    local seen = redis.call("HMGET", record_of(id), "c", "s", "u")
    if seen[1] and not ENDED[seen[2]] then
        flow_breaks(id, seen[1], "was deleted")
    end
    if seen[3] then
        let_go(id, seen[3], false)
    end
    redis.call("DEL", record_of(id), record_of(id) .. ":errors")
end
