-- Accept one task: write its record, put it into its queue and notify a worker.
-- Precondition: names are validated; the id is new, or the call is a repetition, which changes nothing.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] queue  name
-- ARGV[3] due  empty: at once; "+ms": milliseconds from now; else milliseconds since the epoch
-- ARGV[4] priority  -100 to 100
-- ARGV[5] unique  empty, or the unique claim: manner and digest of the key, "f…", "s…" or "t… ttl_ms", and after that
--         what happens to a pending task that has the key: nothing, " replace" or " extend", and then nothing or " max_wait_ms":
--         the latest due time that such calls can give the task, counted from its acceptance
-- ARGV[6] expires  empty, or the moment after which the task does not start and the record's TTL then: "+ms ms", counted
--         from now or from the due time, or "ms ms"
-- ARGV[7..] fields  pairs of field and value for the record
-- DERIVED base:t:<id> hash, base:q:<queue>:ready list, :scheduled, :priority, :grouped, :turns zsets,
--         :purged_at_us string, base:sequence string, base:queues, :wakeup:* zsets, base:paused hash, base:unique:<digest>, :limit:* strings; and
--         of a task that the call changes base:reply:<id> string, base:q:<queue>:* lists, zsets and hashes, base:rate:*
--         string, base:holders:*, :concurrency_waiters:* zsets
-- Returns above 0: microseconds since the epoch at which the task was accepted
-- Returns {id, record}: another task has the unique key; it was changed as the claim says
-- Cost: O(log n) in the tasks scheduled or with a priority, else O(1); O(n) if a task is taken out of a list
local base = KEYS[1]
local id = ARGV[1]
local queue = ARGV[2]
local due = ARGV[3]
local priority = ARGV[4]
local unique = ARGV[5]
local expires = ARGV[6]
-- @include accept

local ctx = new_context(base)
local accepted, is_ready = accept_task(ctx, ctx.now_us, ARGV, 1, #ARGV)
if is_ready then
  push_ready(ctx, queue, 1, id)
end
return accepted
