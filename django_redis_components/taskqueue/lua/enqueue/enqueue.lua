-- Accept one task: its record, its place in the queue, a ring of the bell.
-- Precondition: names are validated; the id is new, or this is the same call again (then nothing changes).
-- KEYS[1] base  common prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] queue  name
-- ARGV[3] due  empty: at once; "+ms": milliseconds from now; else milliseconds since the epoch
-- ARGV[4] priority  -100 to 100
-- ARGV[5] unique  empty, or manner and digest of the key that no other task may have, "f…", "s…" or "t… ms"
-- ARGV[6] expires  empty, or when it is not begun any more and for how long its record is kept then: "+ms ms", from
--         now or from when it is due, or "ms ms"
-- ARGV[7..] fields  pairs of field and value for the record
-- DERIVED base:t:<id> hash, base:q:<queue>:ready list, :sched zset, :prio zset, :purged string, base:seq string,
--         base:queues zset, base:bell:* zset, base:u:<digest> string, base:limit:* strings
-- Returns above 0: microseconds since the epoch at which the task was accepted
-- Returns {id, record}: of the task that has the unique key
-- Cost O(log n) in the tasks scheduled or prioritised, else O(1)
local base = KEYS[1]
local id = ARGV[1]
local queue = ARGV[2]
local due = ARGV[3]
local priority = tonumber(ARGV[4])
local unique = ARGV[5]
local expires = ARGV[6]
-- @include clock
-- @include places
-- @include accept

local accepted = accept(id, queue, due, priority, unique, expires, 7, #ARGV)
push_ready()
return accepted
