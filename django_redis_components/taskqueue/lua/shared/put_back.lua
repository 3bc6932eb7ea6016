-- Put a task into a list of its queue again. `t`, the time, tells cancel.lua that no purge before it has taken it.
local function put_back(command, id, queue, part)
    redis.call("HSET", record_of(id), "s", "ready", "t", now_us)
    redis.call(command, place(queue, part), id)
end
