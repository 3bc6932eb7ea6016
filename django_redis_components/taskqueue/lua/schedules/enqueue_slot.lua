-- Send the task of one slot of a schedule, and note the slot: both or neither, and once.
-- Precondition: slots of a schedule are sent in their order.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] poller  id of the caller
-- ARGV[2] name  of the schedule
-- ARGV[3] slot_ms  milliseconds since the epoch
-- ARGV[4] next_ms  the slot after it, for those who look; 0 for none
-- ARGV[5..] rest  the arguments of enqueue.lua
-- DERIVED base:poller string, base:schedule:<name> hash; and those of enqueue.lua
-- Returns {code, last_ms}: 1 sent; 2 not sent, since another task has its unique key; 0 this slot, or one after it, was seen to before; -1 its time has not come;
--         -2 another poller is active. last_ms is the last slot that was seen to
-- Cost: that of enqueue.lua
local base = KEYS[1]
local poller = ARGV[1]
local name = ARGV[2]
local slot_ms = tonumber(ARGV[3])
local next_ms = ARGV[4]
-- @include clock
-- @include places
-- @include accept

local schedule_key = base .. ":schedule:" .. name
local last_ms = tonumber(redis.call("HGET", schedule_key, "last") or 0)
if redis.call("GET", base .. ":poller") ~= poller then
    return { -2, last_ms }
end
if slot_ms > now_ms then
    return { -1, last_ms }
end
if slot_ms <= last_ms then
    -- Sent again after a lost reply: the answer that was lost.
    return { redis.call("HGET", schedule_key, "id") == ARGV[5] and 1 or 0, last_ms }
end
redis.call("HSET", schedule_key, "last", slot_ms, "next", next_ms)
local accepted = accept(ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9], ARGV[10], 11, #ARGV)
push_ready()
if type(accepted) == "table" then
    return { 2, slot_ms }
end
redis.call("HSET", schedule_key, "fired", now_us, "id", ARGV[5])
return { 1, slot_ms }
