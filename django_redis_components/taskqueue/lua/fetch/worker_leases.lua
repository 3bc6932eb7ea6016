-- Find the tasks of a queue that a worker has leased, among a range of the running ones. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] worker  id
-- ARGV[2] queue  name
-- ARGV[3] offset  how many running tasks are passed over
-- ARGV[4] limit  how many are examined
-- DERIVED base:q:<queue>:running zset, base:t:<id> hash
-- Returns {examined, tasks}: how many were examined; {id, token, enqueued_us} of each task of the worker
-- Cost: O(limit + log n)
local base = KEYS[1]
local worker = ARGV[1]
local queue = ARGV[2]
local offset = tonumber(ARGV[3])
local limit = tonumber(ARGV[4])
-- @include worker_leases

return { find_leases(new_context(base), queue, worker, offset, limit) }
