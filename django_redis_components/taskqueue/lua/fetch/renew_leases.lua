-- A supervisor's heartbeat for one child: it lives, and these leases go on.
-- Precondition: the caller has seen that the child lives.
-- KEYS[1] base  common prefix of the tag's keys
-- ARGV[1] worker  id
-- ARGV[2] lease_ms  life of a lease from now on
-- ARGV[3] info  JSON about the worker, for the dashboard
-- ARGV[4..] leases  pairs of task id and lease token
-- DERIVED base:contact hash, base:workers zset, base:worker:<worker> string, base:t:<id> hash, base:q:<queue>:running zset
-- Returns {ids whose lease is lost, tasks that were asked to end}: of each of these the id, and the milliseconds
--         until it is ended by force
-- Cost O(leases) times O(log n)
local base = KEYS[1]
local worker = ARGV[1]
local lease_ms = tonumber(ARGV[2])
local info = ARGV[3]
-- @include clock
-- @include places
-- @include contact

note_contact(lease_ms, #ARGV == 3)
redis.call("ZADD", base .. ":workers", now_ms, worker)
redis.call("SET", base .. ":worker:" .. worker, info, "PX", lease_ms * 40)
local lost, asked = {}, {}
for at = 4, #ARGV, 2 do
    local id = ARGV[at]
    local seen = redis.call("HMGET", record_of(id), "L", "s", "q", "o")
    if seen[1] == ARGV[at + 1] and seen[2] == "running" then
        redis.call("ZADD", place(seen[3], "running"), "XX", now_ms + lease_ms, id)
        if seen[4] then
            asked[#asked + 1] = id
            asked[#asked + 1] = math.max(0, tonumber(string.match(seen[4], "^%d+")) - now_ms)
        end
    else
        lost[#lost + 1] = id
    end
end
return { lost, asked }
