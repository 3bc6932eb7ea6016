-- Read the counters of the latest minutes or hours of some queues. Writes nothing.
-- Precondition: none; hours hold the minutes that have ended and were rolled up by a poller.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] step  min or hour
-- ARGV[2] count  how many of the latest, at most 336; the first is the one that has not ended
-- ARGV[3] whole  of how many of them the histograms are told too; of the others the first 8 counters
-- ARGV[4..] queues  names
-- DERIVED base:q:<queue>:min:<minute>, :hour:<hour> strings
-- Returns {now_us, rows}: each row {queue, ago, counters, ago, counters, …} with what is there; ago 0 is the latest
-- Cost: O(queues * count)
local base = KEYS[1]
local step = ARGV[1]
local count = tonumber(ARGV[2])
local whole = tonumber(ARGV[3])
-- @include clock
-- @include places

local latest = math.floor(now_ms / (step == "min" and 60000 or 3600000))
local rows = {}
for queue = 4, #ARGV do
    local row = { ARGV[queue] }
    for ago = 0, count - 1 do
        local key = place(ARGV[queue], step .. ":" .. (latest - ago))
        local counters = redis.call("GETRANGE", key, 0, ago < whole and 415 or 31)
        if counters ~= "" then
            row[#row + 1] = ago
            row[#row + 1] = counters
        end
    end
    rows[#rows + 1] = row
end
return { now_us, rows }
