-- A task of a flow carries c, "<flow>/<number>". The flow's hash has for each number the task's id and the numbers of
-- its followers; g<n>: parents that have not succeeded; b<n>: those of them that never will; d<n>, x<n>: when it may
-- start, and until when. tasks: how many; left: those that have not finished; e: when all were there; ttl, keep: its
-- life after a good end, and after another; bad: it is another; rescue: number of the on_error task that waits; oops:
-- what that one is told.
-- Records of successful tasks have no end before the flow has one: followers read the results there.
-- @include moments

local function flow_of(c)
    local flow, at = string.match(c, "^(.+)/(%d+)$")
    return base .. ":flow:" .. flow, at
end

local function node_of(key, at)
    return string.match(redis.call("HGET", key, at) or "", "^(%S+) ?(.*)$")
end

local function is_in(id, state)
    return redis.call("HGET", record_of(id), "s") == state
end

-- The on_error task, if there is one, comes after all others.
local function each_successful(key, command, ...)
    for number = 0, tonumber(redis.call("HGET", key, "tasks")) do
        local id = node_of(key, number)
        if id and is_in(id, "successful") then
            redis.call(command, record_of(id), ...)
        end
    end
end

-- Have a task stand where those are seen that wait for others: by when they were accepted, and in the order of the flow.
local function stand_by(at, id)
    local seen = redis.call("HMGET", record_of(id), "q", "e")
    redis.call("ZADD", base .. ":queues", "NX", now_ms, seen[1])
    redis.call("ZADD", place(seen[1], "waiting"), seen[2] + at, id)
end

-- What waited for others takes its place in its queue.
local function set_off(key, at, id)
    local record = record_of(id)
    local seen = redis.call("HMGET", record, "q", "p")
    redis.call("ZREM", place(seen[1], "waiting"), id)
    local told = redis.call("HMGET", key, "d" .. at, "x" .. at)
    local due_ms = told[1] and moment(told[1], now_us) or 0
    if told[2] then
        redis.call("HSET", record, "X", expiry(told[2], now_us, due_ms))
    end
    redis.call("ZADD", base .. ":queues", "NX", now_ms, seen[1])
    if due_ms > now_ms then
        redis.call("HSET", record, "s", "scheduled", "d", due_ms)
        schedule(seen[1], id, due_ms)
        return
    end
    redis.call("HSET", record, "s", "ready", "t", now_us)
    if seen[2] then
        rank(seen[1], id, seen[2])
    else
        redis.call("RPUSH", place(seen[1], "ready"), id)
    end
    ring_queue(seen[1])
end

-- One task of the flow has finished. After the last one the results live as long as they are asked to.
local function close_one(key)
    if redis.call("HINCRBY", key, "left", -1) > 0 then
        return
    end
    local seen = redis.call("HMGET", key, "bad", "ttl", "keep", "rescue")
    if seen[4] then
        local id = node_of(key, seen[4])
        redis.call("ZREM", place(redis.call("HGET", record_of(id), "q") or "", "waiting"), id)
        redis.call("DEL", record_of(id))
    end
    local ttl_ms = seen[1] and seen[3] or seen[2]
    each_successful(key, "PEXPIRE", ttl_ms)
    redis.call("PEXPIRE", key, ttl_ms)
end

-- In flow_breaks.lua, for scripts that end tasks.
local flow_breaks

-- A task of a flow has succeeded: followers that waited for nothing else may start.
local function flow_goes_on(id, c)
    local key, at = flow_of(c)
    local _, followers = node_of(key, at)
    if not followers then
        return
    end
    redis.call("PERSIST", record_of(id))
    for follower in string.gmatch(followers, "%d+") do
        if redis.call("HINCRBY", key, "g" .. follower, -1) == 0 then
            local after = node_of(key, follower)
            if is_in(after, "waiting") then
                set_off(key, follower, after)
            elseif redis.call("EXISTS", record_of(after)) == 0 then
                flow_breaks(after, string.match(c, "^.+/") .. follower, "was deleted")
            end
        end
    end
    close_one(key)
end
