-- The poller's round: wake workers for due tasks, bring back tasks of dead workers, prune.
-- Precondition: none; any number of pollers may call it, the holder of the poller's lease alone acts.
-- KEYS[1] base  common prefix of the tag's keys
-- ARGV[1] poller  id of the caller
-- ARGV[2] hold_ms  life of the poller's lease
-- ARGV[3] lease_ms  life of a lease without renewal
-- ARGV[4] contact  "new": the caller's first call; "error": its last call failed; "idle": its last round found no task
--         that runs or is scheduled; else empty
-- ARGV[5] prune  1: drop what is too old to be kept
-- ARGV[6] keep_ms  how long failed tasks are kept
-- ARGV[7] failed_limit  how many failed tasks a queue keeps
-- ARGV[8] lost_error  JSON of the error of a task that lost too many workers
-- ARGV[9] max_deliveries  for tasks that do not say
-- ARGV[10] lost_note  fingerprint of that error, and JSON of what it stands for
-- ARGV[11] first  rank of the first queue of this call; the round begins with 0
-- DERIVED base:poller string, base:contact hash, base:queues zset, base:workers zset, base:paused hash, base:q:<queue>:* lists and zsets,
--         base:idle zset, base:t:<id> hash, :errors list, :done list, base:bell:* zset, base:limit:* strings,
--         base:slots:*, :waits:* zsets, base:u:<digest> string, base:flow:<flow> hash
-- Returns {holds, next_due_ms, now_us, recovered, next, busy}: holds 1, or 0 with next_due_ms the end of the other's
--         lease; recovered is a flat list of id, queue, outcome ("front" or "failed"); next is the rank at
--         which the round goes on, 0 when it has seen all queues; busy is 1 if a task runs or is scheduled
-- Cost O(queues + recovered) times O(log n); at most 500 queues are seen and 200 tasks recovered in one call, and 20 of
--      those looked at that wait in each queue
local base = KEYS[1]
local poller = ARGV[1]
local hold_ms = tonumber(ARGV[2])
local lease_ms = tonumber(ARGV[3])
local contact = ARGV[4]
local prune = ARGV[5] == "1"
local keep_ms = tonumber(ARGV[6])
local failed_limit = ARGV[7]
local lost_error = ARGV[8]
local max_deliveries = tonumber(ARGV[9])
local lost_note = ARGV[10]
local first = tonumber(ARGV[11])
-- @include clock
-- @include places
-- @include put_back
-- @include finish
-- @include unique
-- @include flow
-- @include tally
-- @include flow_breaks
-- @include limits
-- @include cancelled
-- @include pauses
-- @include roll_up
-- @include faults
-- @include index
-- @include contact

-- The server's process; nil where the caller may not ask. Then an error of the caller may hide a restart.
local function run_id()
    local info = redis.pcall("INFO", "server")
    return type(info) == "string" and string.match(info, "run_id:(%w+)") or nil
end

-- An idle round recovers nothing, so it needs not know whether the server was restarted: the next round asks.
local is_idle = contact == "idle"
local server = not is_idle and run_id() or nil
local is_hidden = not server and contact == "error"
local hold_until_ms, latest_ms = note_contact(lease_ms, contact == "new", server, is_hidden)
local holder = redis.call("GET", base .. ":poller")
if holder and holder ~= poller then
    local left_ms = redis.call("PTTL", base .. ":poller")
    -- A life longer than any: the clock was set back. The holder may be dead, and its place would be taken for hours.
    if left_ms <= 2 * hold_ms then
        return { 0, now_ms + left_ms, now_us, {}, 0, 1 }
    end
end
redis.call("SET", base .. ":poller", poller, "PX", hold_ms)

-- So many of those that wait for others, or for a limit, are looked at in each queue when it is pruned.
local LOST = 20
local next_due_ms = 0
-- @include bring_back

-- Bring back the tasks of a queue whose leases end in a time; 200 in a call, of all queues.
local function release_ended(queue, from_ms, to_ms)
    local left = 200 - #recovered / 3
    local ended = redis.call("ZRANGEBYSCORE", place(queue, "running"), from_ms, to_ms, "LIMIT", 0, left)
    for at = #ended, 1, -1 do
        bring_back(ended[at], queue)
    end
end

local queues = redis.call("ZRANGE", base .. ":queues", first, first + 499)
local forgotten, busy = 0, 0
local has_pauses = #queues > 0 and redis.call("EXISTS", base .. ":paused") == 1
for _, queue in ipairs(queues) do
    local was_paused = has_pauses and redis.call("HEXISTS", base .. ":paused", queue) == 1
    local until_ms = was_paused and paused_until(queue)
    local due_ms
    if until_ms then
        due_ms = until_ms > 0 and until_ms or nil
    else
        local score = redis.call("ZRANGE", place(queue, "sched"), 0, 0, "WITHSCORES")[2]
        due_ms = score and math.ceil(score)
        if was_paused then
            ring_queue(queue)
        end
    end
    if due_ms and due_ms <= now_ms then
        ring_queue(queue)
        due_ms = now_ms + 1000
    end
    if due_ms and (next_due_ms == 0 or due_ms < next_due_ms) then
        next_due_ms = due_ms
    end
    if due_ms then
        busy = 1
    end
    if redis.call("EXISTS", place(queue, "running")) == 1 then
        busy = 1
        if is_idle then
            next_due_ms = now_ms -- a full round follows at once
        elseif now_ms >= hold_until_ms then
            release_ended(queue, "-inf", now_ms)
            release_ended(queue, string.format("(%.0f", latest_ms), "+inf") -- given before the clock was set back
        end
    end
    if prune then
        redis.call("ZREMRANGEBYSCORE", place(queue, "failed"), "-inf", now_ms - keep_ms)
        redis.call("ZREMRANGEBYSCORE", place(queue, "errs"), "-inf", now_ms - keep_ms)
        if redis.call("EXISTS", place(queue, "limited")) == 1 then
            limits().go_on(queue, LOST)
        end
        drop_lost_waiting(queue, LOST)
        forgotten = forgotten + (forget(queue) and 1 or 0)
    end
end
write_tallies()
write_faults()
if #recovered == 600 then
    next_due_ms = now_ms
end
local next = #queues == 500 and first + 500 - forgotten or 0
if prune then
    roll_up(queues, first)
    redis.call("ZREMRANGEBYSCORE", base .. ":workers", "-inf", now_ms - 600000)
    redis.call("ZREMRANGEBYSCORE", base .. ":workers", now_ms + 60000, "+inf") -- seen before the clock was set back
end
ring_called_up()
return { 1, next_due_ms, now_us, recovered, next, busy }
