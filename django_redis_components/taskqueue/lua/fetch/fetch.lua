-- Settle finished tasks, then take up to `want` tasks from the queues in strict order and lease them.
-- Precondition: `lane` is used by one thread, and `request` grows with each of its new calls.
-- KEYS[1] base  common prefix of the tag's keys
-- ARGV[1] worker  id
-- ARGV[2] lane  the caller's thread, unique in the worker
-- ARGV[3] request  number; the same again means that the reply was lost
-- ARGV[4] lease_ms  life of a lease without renewal
-- ARGV[5] want  at most so many tasks
-- ARGV[6] failed_limit  how many failed tasks a queue keeps
-- ARGV[7] queues  how many queue names follow
-- ARGV[8..] rest  queue names; then for each ack: id, token, outcome, payload, delay_ms, ttl_ms, note
-- DERIVED base:t:<id> hash, :errors list, :done list, base:q:<queue>:* lists and zsets,
--         base:lane:<worker>:<lane> string, base:bell:* zset, base:paused hash, base:limit:*, :rate:* strings,
--         base:slots:*, :waits:* zsets, base:trial:<worker> string, base:u:<digest> string, base:flow:<flow> hash
-- Returns {acks, tasks, next_due_ms, now_us}: acks 1 applied, 2 applied before, 0 fenced out; each task
--         {id, token, name, body, queue, attempts, deliveries, enqueued_us, started_us}; next_due_ms 0 when
--         none, now when it has passed over so many that it did not look at all
-- Cost O(acks + want) times O(log n)
local base = KEYS[1]
local worker = ARGV[1]
local lane = ARGV[2]
local request = ARGV[3]
local lease_ms = tonumber(ARGV[4])
local want = tonumber(ARGV[5])
local failed_limit = ARGV[6]
local queues = tonumber(ARGV[7])
-- @include clock
-- @include places
-- @include put_back
-- @include records
-- @include limits
-- @include ends
-- As the fields of records have it; the server is slow at making text of such numbers.
local now_text = string.format("%.0f", now_us)

local acks = {}
if #ARGV >= 8 + queues then
-- @include settle
    for at = 8 + queues, #ARGV, 7 do
        acks[#acks + 1] = settle(unpack(ARGV, at, at + 6))
    end
    end_leases()
    write_errors()
end
if want == 0 then
    write_records()
    ring_called_up()
    return { acks, {}, 0, now_us }
end

local token = worker .. "/" .. lane .. "/" .. request
local tasks = {}

local function answer(id)
    local seen = redis.call("HMGET", record_of(id), "n", "b", "q", "a", "x", "e", "f")
    tasks[#tasks + 1] = { id, token, seen[1], seen[2], seen[3], seen[4] or 0, seen[5] or 0, seen[6], seen[7] }
end

-- The same request again: what it leased then, as far as it is still leased.
local last = base .. ":lane:" .. worker .. ":" .. lane
local stored = redis.call("GET", last)
if stored and string.match(stored, "^%S+") == request then
    for id in string.gmatch(string.match(stored, "^%S+(.*)"), "%S+") do
        local seen = redis.call("HMGET", record_of(id), "L", "s")
        if seen[1] == token and seen[2] == "running" then
            answer(id)
        end
    end
    write_records()
    ring_called_up()
    return { acks, tasks, 0, now_us }
end

local next_due_ms = 0
-- @include take
-- @include pauses

-- What this call leaves behind is somebody else's to hear of: work now, or a time to watch. `plain`: before the call it
-- had ready tasks only.
local function leave(queue, plain)
    local due_ms
    if not plain or passed > 0 or limits_made then
        local score = redis.call("ZRANGE", place(queue, "sched"), 0, 0, "WITHSCORES")[2]
        due_ms = score and math.ceil(score)
    end
    if due_ms and (next_due_ms == 0 or due_ms < next_due_ms) then
        next_due_ms = due_ms
    end
    if not wants_more() then
        local soon = due_ms and due_ms < now_ms + 5000
        if soon or redis.call("EXISTS", place(queue, "ready"), place(queue, "front"), place(queue, "prio")) > 0 then
            ring("q:" .. queue)
        end
    end
end

local pauses = redis.call("EXISTS", base .. ":paused") == 1
for at = 8, 7 + queues do
    local until_ms = pauses and paused_until(ARGV[at])
    if not until_ms then
        leave(ARGV[at], take(ARGV[at]))
    elseif until_ms > 0 and (next_due_ms == 0 or until_ms < next_due_ms) then
        next_due_ms = until_ms
    end
end
if passed >= MOST_PASSED then
    next_due_ms = now_ms
end
if #tasks > 0 then
    local ids = {}
    for at, task in ipairs(tasks) do
        ids[at] = task[1]
    end
    redis.call("SET", last, request .. " " .. table.concat(ids, " "), "PX", lease_ms)
end
write_records()
ring_called_up()
return { acks, tasks, next_due_ms, now_us }
