-- Life of what is remembered of a limit that no task comes by, in ms: 30 days.
local LIMIT_TTL_MS = 2592000000

-- What a task says of a limit in its record's field C, "<most>/<key>", or R, "<interval_us>/<tolerance_us>/<key>": the
-- limit, and the numbers.
local function read_limit(field, said)
    local numbers, key = string.match(said, field == "C" and "^(%d+)/(.*)$" or "^(%d+/%d+)/(.*)$")
    return string.lower(field) .. ":" .. key, numbers
end

local function set_limit(limit, numbers)
    redis.call("SET", base .. ":limit:" .. limit, numbers, "PX", LIMIT_TTL_MS)
end

-- A task is sent, with the pairs of field and value between two places of ARGV. It says how much its limits are, for
-- those too that were sent before.
local function note_limits(first, last)
    for at = first, last, 2 do
        if ARGV[at] == "C" or ARGV[at] == "R" then
            set_limit(read_limit(ARGV[at], ARGV[at + 1]))
        end
    end
end
