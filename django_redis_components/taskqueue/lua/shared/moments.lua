-- "+ms" from now, or milliseconds since the epoch.
local function moment(text, from_ms)
    return string.sub(text, 1, 1) == "+" and from_ms + tonumber(text) or tonumber(text)
end

-- An expiry as enqueue.lua takes it, as a record keeps it: a moment and a duration, both in ms.
local function expiry(expires, due_ms)
    local at, ttl_ms = string.match(expires, "^(%S+) (%d+)$")
    return string.format("%.0f %s", moment(at, math.max(now_ms, due_ms)), ttl_ms)
end
