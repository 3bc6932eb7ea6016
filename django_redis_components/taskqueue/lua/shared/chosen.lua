-- Of the tasks on a shelf of the queue: those named from ARGV[6] on, or without names the oldest up to a moment, after
-- those that are passed over.
local function chosen(shelf, skip)
    if #ARGV < 6 then
        return redis.call("ZRANGEBYSCORE", place(queue, shelf), "-inf", up_to_ms, "LIMIT", skip, limit)
    end
    local ids = {}
    for at = 6, #ARGV do
        ids[#ids + 1] = ARGV[at]
    end
    return ids
end
