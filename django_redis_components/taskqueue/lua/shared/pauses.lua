-- Until when a queue is paused, in ms; 0 without an end, nil when it is not. A pause that has ended is dropped.
local function paused_until(queue)
    local pause = redis.call("HGET", base .. ":paused", queue)
    if pause and has_ended(pause) then
        redis.call("HDEL", base .. ":paused", queue)
        return nil
    end
    return pause and tonumber(string.match(pause, "^%d+"))
end
