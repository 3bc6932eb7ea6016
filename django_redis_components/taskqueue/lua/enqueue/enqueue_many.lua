-- Accept several tasks, as enqueue.lua accepts one, in this order.
-- Precondition: that of enqueue.lua for each of them; at most 1,000.
-- KEYS[1] base  common prefix of the tag's keys
-- ARGV[1..] tasks  for each task: n, and the n arguments of enqueue.lua
-- DERIVED base:t:<id> hash, base:q:<queue>:ready list, :sched zset, :prio zset, :purged string, base:seq string,
--         base:queues zset, base:bell:* zset, base:u:<digest> string, base:limit:* strings
-- Returns for each task what enqueue.lua returns: above 0, or {id, record}
-- Cost O(tasks) times O(log n) in the tasks scheduled or prioritised, else O(tasks)
local base = KEYS[1]
-- @include clock
-- @include places
-- @include accept

local accepted = {}
local at = 1
while at <= #ARGV do
    local id, queue, due, priority, unique, expires = unpack(ARGV, at + 1, at + 6)
    local last = at + ARGV[at]
    accepted[#accepted + 1] = accept(id, queue, due, tonumber(priority), unique, expires, at + 7, last)
    at = last + 1
end
push_ready()
return accepted
