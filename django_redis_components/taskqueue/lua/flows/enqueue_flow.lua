-- Accept the tasks of a flow, or a part of them. With the last part those begin that wait for nothing.
-- Precondition: the ids are new, or this is the same call again; the parts come one after the other.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] flow  id
-- ARGV[2] tasks  how many the whole flow has, the one for errors not counted
-- ARGV[3] last  1: with this part all are there
-- ARGV[4] ttl_ms  how long the flow is kept when all have succeeded
-- ARGV[5] keep_ms  how long it is kept otherwise
-- ARGV[6] rescue  number of the task that runs when another fails; empty: there is none
-- ARGV[7] ends  JSON: whose results are the flow's
-- ARGV[8..] nodes  for each task: number, followers, open parents, n, and the n arguments of enqueue.lua
-- DERIVED base:flow:<flow> hash, base:t:<id> hash, base:q:<queue>:ready list, :sched zset, :prio zset, :waiting zset,
--         base:seq string, base:queues zset, base:bell:* zset, base:limit:* strings
-- Returns above 0: microseconds since the epoch at which this part was accepted
-- Returns 0: earlier parts have expired, and nothing has begun
-- Cost: O(tasks) times O(log n)
local base = KEYS[1]
local flow = ARGV[1]
local tasks = tonumber(ARGV[2])
local last = ARGV[3] == "1"
local ttl_ms = ARGV[4]
local keep_ms = ARGV[5]
local rescue = ARGV[6]
local ends = ARGV[7]
-- @include clock
-- @include places
-- @include finish
-- @include flow
-- @include limit_sent

local key = base .. ":flow:" .. flow
local accepted = redis.call("HGET", key, "e")
if accepted then
    return tonumber(accepted)
end
-- What is written stays for an hour if the other parts do not come.
local HALF_MS = 3600000
local at = 8
while at <= #ARGV do
    local number, followers, open, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    local id, queue, due, _, _, expires = unpack(ARGV, at + 4, at + 9)
    local record = record_of(id)
    redis.call("HSET", record, "q", queue, "e", now_us, "s", "waiting", "c", flow .. "/" .. number)
    redis.call("HSET", record, unpack(ARGV, at + 10, at + 3 + count))
    note_limits(at + 10, at + 3 + count)
    redis.call("PEXPIRE", record, HALF_MS)
    redis.call("HSET", key, number, id .. " " .. followers)
    if open > 0 then
        redis.call("HSET", key, "g" .. number, open)
    end
    if due ~= "" then
        redis.call("HSET", key, "d" .. number, due)
    end
    if expires ~= "" then
        redis.call("HSET", key, "x" .. number, expires)
    end
    at = at + 4 + count
end
redis.call("PEXPIRE", key, HALF_MS)
if not last then
    return now_us
end

local ids = {}
for number = 0, tasks - 1 + (rescue ~= "" and 1 or 0) do
    ids[number] = node_of(key, number)
    if not ids[number] or redis.call("PERSIST", record_of(ids[number])) == 0 then
        return 0
    end
end
redis.call("HSET", key, "e", now_us, "tasks", tasks, "left", tasks, "ttl", ttl_ms, "keep", keep_ms, "ends", ends)
redis.call("PERSIST", key)
if rescue ~= "" then
    redis.call("HSET", key, "rescue", rescue)
end
for number, id in pairs(ids) do
    if number == tasks or redis.call("HEXISTS", key, "g" .. number) == 1 then
        stand_by(number, id)
    end
end
for number = 0, tasks - 1 do
    if redis.call("HEXISTS", key, "g" .. number) == 0 then
        set_off(key, number, ids[number])
    end
end
return now_us
