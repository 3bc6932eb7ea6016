-- What a task needs at its end if it did not succeed, or has a key, a flow, or somebody who waits for it. Made when the
-- first one comes by, as in limits.lua: most calls see none.
local ends_made

local function ends()
    if ends_made then
        return ends_made
    end
    local tally = records().tally
-- @include finish
-- @include unique
-- @include flow
-- @include flow_breaks
-- @include faults
-- @include cancelled
-- @include outcomes
    ends_made = {
        outcomes = outcomes,
        joined = joined,
        tell_waiters = tell_waiters,
        has_expired = has_expired,
        let_go = let_go,
        flow_goes_on = flow_goes_on,
        flow_breaks = flow_breaks,
        note_fault = note_fault,
        write_faults = write_faults,
    }
    return ends_made
end

local function write_errors()
    if ends_made then
        ends_made.write_faults()
    end
end
