-- Records that somebody has deleted, or the server has evicted: who stands in a line behind such a task would wait
-- until another one comes to the gate. The poller looks at a few of those who wait, anywhere in the lines.

local function go_on_after(line, limits)
    if line == limits.slot_line then
        free_lost_slot(limits.slots)
        offer_slot(limits.slots, limits.most, limits.queue)
    elseif not called_before(limits) then
        call_next(limits)
        ring_queue(limits.queue)
        ring("poller")
    end
end

local function go_on_after_lost(queue, most)
    local lines = place(queue, "limited")
    for _, line in ipairs(redis.call("ZRANDMEMBER", lines, most)) do
        local limits = limits_of(id_in(line), queue)
        if not limits then
            redis.call("ZREM", lines, line)
        elseif redis.call("ZSCORE", lines, line) then -- else one before it in this loop has had it called
            go_on_after(line, limits)
        end
    end
end
