local function call_rescue(key, oops)
    local at = redis.call("HGET", key, "rescue")
    if not at then
        return
    end
    redis.call("HDEL", key, "rescue")
    local id = node_of(key, at)
    if is_in(id, "waiting") then
        redis.call("HINCRBY", key, "left", 1)
        redis.call("HSET", key, "oops", oops)
        set_off(key, at, id)
    end
end

-- A task of a flow will never succeed (`how`: failed, was cancelled, …), nor will what comes after it.
function flow_breaks(id, c, how)
    local key, first = flow_of(c)
    if not node_of(key, first) then
        return
    end
    if redis.call("HGET", key, "rescue") == first then
        redis.call("HDEL", key, "rescue") -- the one for errors itself, before any: nobody waits for it
        return
    end
    local name = string.gsub(redis.call("HGET", record_of(id), "n") or "?", '["\\%c]', "?")
    redis.call("HSET", key, "g" .. first, -1) -- its parents may succeed yet: it is not set off, nor missed again
    local keep_ms = redis.call("HGET", key, "keep")
    redis.call("PEXPIRE", record_of(id), keep_ms)
    redis.call("HSET", key, "bad", 1)
    call_rescue(key, id .. " " .. name .. " " .. how)
    local told = '{"exception_class_path":"django_redis_components.taskqueue.exceptions.ParentFailed",'
        .. '"message":"Not run: task %s (%s), which comes before it in its flow, %s.","traceback":""}'
    told = string.format(told, id, name, how)
    local broken = { first }
    while #broken > 0 do
        local _, followers = node_of(key, table.remove(broken))
        for follower in string.gmatch(followers, "%d+") do
            redis.call("HINCRBY", key, "b" .. follower, 1)
            local after = node_of(key, follower)
            local seen = redis.call("HMGET", record_of(after), "s", "W", "q", "n")
            if seen[1] == "waiting" then
                redis.call("ZREM", place(seen[3], "waiting"), after)
                redis.call("HSET", record_of(after), "s", "failed", "F", now_us)
                redis.call("PEXPIRE", record_of(after), keep_ms)
                add_error(after, told, keep_ms)
                tell_waiters(after, seen[2])
                tally(seen[3], seen[4], "failed")
                close_one(key)
                broken[#broken + 1] = follower
            end
        end
    end
    close_one(key)
end
