-- Which tasks of a queue a worker has leased, looked for in a part of those that run. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  common prefix of the tag's keys
-- ARGV[1] worker  id
-- ARGV[2] queue  name
-- ARGV[3] offset  how many running tasks are passed over
-- ARGV[4] limit  how many are looked at
-- DERIVED base:q:<queue>:running zset, base:t:<id> hash
-- Returns {seen, tasks}: how many it has looked at; then {accepted_us, id, token} of each task of the worker
-- Cost: O(limit + log n)
local base = KEYS[1]
local worker = ARGV[1]
local queue = ARGV[2]
local offset = tonumber(ARGV[3])
local limit = tonumber(ARGV[4])
-- @include places

local ids = redis.call("ZRANGE", place(queue, "running"), offset, offset + limit - 1)
local found = {}
for _, id in ipairs(ids) do
    local seen = redis.call("HMGET", record_of(id), "L", "s", "e")
    if seen[1] and seen[2] == "running" and string.match(seen[1], "^[^/]*") == worker then
        found[#found + 1] = { seen[3], id, seen[1] }
    end
end
return { #ids, found }
