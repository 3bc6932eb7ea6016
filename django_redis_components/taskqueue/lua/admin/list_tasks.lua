-- List one page of the ids in a state. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] state  ready, scheduled, waiting, running, failed or parked
-- ARGV[3] offset  how many are passed over
-- ARGV[4] limit  at most so many
-- DERIVED base:q:<queue>:* lists and zsets
-- Returns ids: ready ones in the order in which they are served, cancelled ones among them; others by their time;
--         last those that wait for a limit
-- Cost: O(limit + log n), and O(offset / 100) in a list
local base = KEYS[1]
local queue = ARGV[1]
local state = ARGV[2]
local offset = tonumber(ARGV[3])
local limit = tonumber(ARGV[4])
-- @include clock
-- @include places

local ids = {}

-- Go on with the ranks first to last of one key, after those passed over.
local function go_on(command, part, first, last)
    local from = first + offset
    offset = math.max(0, offset - (last - first + 1))
    local to = math.min(last, from + limit - #ids - 1)
    if from <= to then
        for _, id in ipairs(redis.call(command, place(queue, part), from, to)) do
            ids[#ids + 1] = string.match(id, "[^\t]+$")
        end
    end
end

local due = redis.call("ZCOUNT", place(queue, "sched"), "-inf", now_ms)
-- In the line those that wait for a slot stand before those that wait for a rate.
local limited, for_slots = redis.call("ZCARD", place(queue, "limited")), 0
if limited > 0 then
    for_slots = redis.call("ZLEXCOUNT", place(queue, "limited"), "[c", "(d")
end
if state == "ready" then
    local urgent = redis.call("ZCOUNT", place(queue, "prio"), "-inf", "(0")
    go_on("LRANGE", "front", 0, redis.call("LLEN", place(queue, "front")) - 1)
    go_on("ZRANGE", "sched", 0, due - 1)
    go_on("ZRANGE", "prio", 0, urgent - 1)
    go_on("LRANGE", "ready", 0, redis.call("LLEN", place(queue, "ready")) - 1)
    go_on("ZRANGE", "prio", urgent, redis.call("ZCARD", place(queue, "prio")) - 1)
    go_on("ZRANGE", "limited", 0, for_slots - 1)
elseif state == "scheduled" then
    go_on("ZRANGE", "sched", due, redis.call("ZCARD", place(queue, "sched")) - 1)
    go_on("ZRANGE", "limited", for_slots, limited - 1)
else
    go_on("ZRANGE", state, 0, redis.call("ZCARD", place(queue, state)) - 1)
end
return ids
