-- A failed task of a flow is tried again: what failed only because of it waits again.
local function flow_revives(c)
    local key, first = flow_of(c)
    if not node_of(key, first) then
        return
    end
    if redis.call("HINCRBY", key, "left", 1) == 1 then
        redis.call("PERSIST", key)
        each_successful(key, "PERSIST")
    end
    local revived = { first }
    while #revived > 0 do
        local _, followers = node_of(key, table.remove(revived))
        for follower in string.gmatch(followers, "%d+") do
            local after = node_of(key, follower)
            if redis.call("HINCRBY", key, "b" .. follower, -1) == 0 and is_in(after, "failed") then
                redis.call("HSET", record_of(after), "s", "waiting")
                redis.call("HDEL", record_of(after), "F")
                redis.call("PERSIST", record_of(after))
                stand_by(follower, after)
                redis.call("HINCRBY", key, "left", 1)
                revived[#revived + 1] = follower
            end
        end
    end
end
