-- Accept tasks of one name for one queue, in this order, which are due at once and have no priority, key, end or limit.
-- Precondition: that of enqueue.lua for each of them; at most 1,000.
-- KEYS[1] base  common prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] name  of the task
-- ARGV[3..] tasks  for each task: id and body
-- DERIVED base:t:<id> hash, base:q:<queue>:ready list, base:queues zset, base:paused hash, base:bell:* zset
-- Returns for each task what enqueue.lua returns: above 0
-- Cost O(tasks)
local base = KEYS[1]
local queue = ARGV[1]
local name = ARGV[2]
-- @include clock
-- @include places

local function push(count, ...)
    if redis.call("RPUSH", place(queue, "ready"), ...) == count then -- it was empty, and may have been forgotten
        redis.call("ZADD", base .. ":queues", "NX", now_ms, queue)
    end
    ring_queue(queue)
end

local function write(record, at_us, body)
    redis.call("HSET", record, "q", queue, "e", at_us, "n", name, "b", body)
end

-- One alone, which is the usual call, is worth a way without tables: a third less of the server's time.
if #ARGV == 4 then
    local record = record_of(ARGV[3])
    local before = redis.call("HGET", record, "e")
    if not before then
        write(record, now_us, ARGV[4])
        push(1, ARGV[3])
    end
    return { tonumber(before or now_us) }
end

-- Those of the same call again have their records; one look tells that none has.
local ids, records = {}, {}
for at = 3, #ARGV, 2 do
    ids[#ids + 1] = ARGV[at]
    records[#records + 1] = record_of(ARGV[at])
end
local known = redis.call("EXISTS", unpack(records)) > 0

local accepted, ready = {}, {}
for number, record in ipairs(records) do
    local before = known and redis.call("HGET", record, "e")
    accepted[number] = tonumber(before or now_us + number - 1)
    if not before then
        write(record, accepted[number], ARGV[2 * number + 2])
        ready[#ready + 1] = ids[number]
    end
end
if #ready > 0 then
    push(#ready, unpack(ready))
end
return accepted
