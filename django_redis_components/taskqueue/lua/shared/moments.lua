-- "+ms" from a time in microseconds, or milliseconds since the epoch. A delay is rounded up: nothing is due before it
-- has passed. `TaskOptions.due_ms` calculates the same.
local function moment(text, from_us)
    if string.sub(text, 1, 1) ~= "+" then
        return tonumber(text)
    end
    local delay_ms = tonumber(text)
    return delay_ms > 0 and math.ceil(from_us / 1000) + delay_ms or math.floor(from_us / 1000)
end

-- An expiry as enqueue.lua takes it, as a record keeps it: a moment and a duration, both in ms. It counts from when the
-- task is due, at `from_us` at the earliest. `TaskOptions.expiry_ms` calculates the same.
local function expiry(expires, from_us, due_ms)
    local at, ttl_ms = string.match(expires, "^(%S+) (%d+)$")
    local at_ms = tonumber(at)
    if string.sub(at, 1, 1) == "+" then
        at_ms = at_ms + math.max(math.floor(from_us / 1000), due_ms)
    end
    return string.format("%.0f %s", at_ms, ttl_ms)
end
