-- The longest list that there is, whatever limit the caller's object has: another one may keep more.
local MAX_LENGTH = 1000

-- Removes the element of an id (all of them, should there be several) and returns its text, or "".
local function take_out(recents, id)
    local known = ""
    local start = id .. "\0"
    for _, element in ipairs(redis.call("LRANGE", recents, 0, MAX_LENGTH - 1)) do
        if string.sub(element, 1, #start) == start then
            known = string.sub(element, #start + 1)
            redis.call("LREM", recents, 0, element)
        end
    end
    return known
end
