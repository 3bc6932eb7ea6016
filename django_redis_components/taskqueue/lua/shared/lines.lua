-- Limits over all workers. A limit is called "c:<key>" (how many tasks run at once) or "r:<key>" (how many start in a
-- time). Who finds it reached stands in a line: one zset of each queue, in which all that wait for one limit stand
-- together, by priority, then by when they were accepted; tasks of one flow, accepted at one moment, in its order.
-- @include limit_sent

-- Queues in which somebody was called up to the front.
local called_in = {}

-- The limits of a task, and its place in their lines; nil if it has none.
local function limits_of(id, queue)
    local seen = redis.call("HMGET", record_of(id), "C", "R", "p", "e", "c")
    if not seen[1] and not seen[2] then
        return nil
    end
    local limits = { id = id, queue = queue }
    local number = seen[5] and string.format("\t%05d", string.match(seen[5], "%d+$")) or ""
    local order = string.format("\t%03d\t%s%s\t%s", 100 - tonumber(seen[3] or 0), seen[4], number, id)
    if seen[1] then
        limits.slots, limits.most = read_limit("C", seen[1])
        limits.slot_line = limits.slots .. order
    end
    if seen[2] then
        limits.rate, limits.pace = read_limit("R", seen[2])
        limits.rate_line = limits.rate .. order
    end
    return limits
end

-- How much a limit is: as the newest task said, or else as this one does.
local function newest(limit, own)
    local numbers = redis.call("GET", base .. ":limit:" .. limit)
    if not numbers then
        set_limit(limit, own)
    end
    return numbers or own
end

local function id_in(line)
    return string.match(line, "[^\t]+$")
end

-- Who waits first for a limit in a queue. Those whose records somebody has deleted leave the line.
local function first_in_line(limit, queue)
    local from, to = "[" .. limit .. "\t", "(" .. limit .. "\n"
    local line
    for _ = 1, 1000 do
        line = redis.call("ZRANGEBYLEX", place(queue, "limited"), from, to, "LIMIT", 0, 1)[1]
        if not line or redis.call("EXISTS", record_of(id_in(line))) == 1 then
            break
        end
        redis.call("ZREM", place(queue, "limited"), line)
    end
    return line
end

-- Out of the line, to the front of the queue: it had its turn before, and passes the gate again.
local function call_up(queue, line)
    redis.call("ZREM", place(queue, "limited"), line)
    put_back("RPUSH", id_in(line), queue, "front")
    called_in[queue] = true
end

-- Ring for those who were called up and are still there.
local function ring_called()
    for queue in pairs(called_in) do
        if redis.call("EXISTS", place(queue, "front")) == 1 then
            ring_queue(queue)
        end
    end
end
