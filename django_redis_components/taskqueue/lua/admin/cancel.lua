-- Cancel a task. One in a zset leaves it at once, one in a list when it is fetched; a running one is asked to stop.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] ttl_ms  how long its record is kept
-- ARGV[3] force_ms  how long a running task has to stop by itself; empty: running tasks are left alone
-- ARGV[4] finished_limit  how many cancelled tasks a queue lists; 0: none
-- ARGV[5] finished_ttl_ms  how long they are listed
-- DERIVED base:t:<id> hash, :errors, :done lists, base:q:<queue>:* zsets, :ready, :requeued, :cancelled lists, :reserved hash,
--         :tombstones, :purged_at_us strings, base:queues zset, base:paused hash, base:limit:*, :rate:* strings,
--         base:holders:*, :concurrency_waiters:*, :unfinished_flows, :wakeup:* zsets, base:unique:<digest>, :sequence strings,
--         base:flow:<flow> hash
-- Returns 2: it runs, and was asked to stop
-- Returns 1: cancelled, now or before
-- Returns 0: it has finished
-- Returns -1: the task does not exist
-- Returns -2: it runs, and was left alone
-- Cost: O(log n)
local base = KEYS[1]
local id = ARGV[1]
local ttl_ms = ARGV[2]
local force_ms = tonumber(ARGV[3])
local finished_limit = tonumber(ARGV[4])
local finished_ttl_ms = ARGV[5]
-- @include cancellation
-- @include flush

local ctx = new_context(base)
ctx.finished_limit, ctx.finished_ttl_ms = finished_limit, finished_ttl_ms
local done = cancel(ctx, id, ttl_ms, force_ms)
flush(ctx)
return done
