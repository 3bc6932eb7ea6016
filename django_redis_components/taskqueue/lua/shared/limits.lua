-- What tasks with limits need. Made when the first one comes by: most calls see none, and making functions takes time.
local limits_made

local function limits()
    if limits_made then
        return limits_made
    end
-- @include lines
-- @include slots
-- @include rates
-- @include gate
-- @include lost
    limits_made = {
        of = limits_of,
        passes = passes,
        pass_on = pass_on,
        free_slot = free_slot,
        go_on = go_on_after_lost,
        ring_called = ring_called,
    }
    return limits_made
end

-- Ring for those who were called up in this call.
local function ring_called_up()
    if limits_made then
        limits_made.ring_called()
    end
end
