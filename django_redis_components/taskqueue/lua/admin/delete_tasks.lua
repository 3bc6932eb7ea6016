-- Delete failed or parked tasks: those named, or the oldest up to a moment.
-- Precondition: none; a task that is not there any more is passed over.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] shelf  failed or parked
-- ARGV[3] up_to_ms  those that came there until then, when no ids are named
-- ARGV[4] limit  at most so many
-- ARGV[5] op  id of the operation, new for each
-- ARGV[6..] ids  of tasks
-- DERIVED base:q:<queue>:failed, :parked, :waiting zsets, base:t:<id> hash, :errors list, base:op:<op> string,
--         base:u:<digest> string, base:flow:<flow> hash
-- Returns {n, m}: n deleted, m looked at
-- Cost: O(m log n)
local base = KEYS[1]
local queue = ARGV[1]
local shelf = ARGV[2]
local up_to_ms = ARGV[3]
local limit = ARGV[4]
local op = ARGV[5]
-- @include clock
-- @include places
-- @include finish
-- @include unique
-- @include flow
-- @include tally
-- @include flow_breaks
-- @include abandon
-- @include once
-- @include chosen

local before = answered()
if before then
    return before
end
local ids = chosen(shelf, 0)
local gone = 0
for _, id in ipairs(ids) do
    if redis.call("ZREM", place(queue, shelf), id) == 1 then
        abandon(id)
        gone = gone + 1
    end
end
write_tallies()
return answer_with({ gone, #ids })
