-- State the leases of tasks. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1..] ids  of tasks, at most 500
-- DERIVED base:t:<id> hash, base:q:<queue>:running zset
-- Returns a list with {state, lease, lease_ends_ms} of each task: state empty if it is ready, "gone" if the record has
--         expired; lease_ends_ms empty unless the task is running
-- Cost: O(ids)
local base = KEYS[1]
-- @include context

local ctx = new_context(base)
local rows = {}
for index, id in ipairs(ARGV) do
  local queue, state, lease = unpack(redis.call("HMGET", task_key(ctx, id), F.queue, F.state, F.lease))
  local ends_ms = state == S.running and redis.call("ZSCORE", queue_key(ctx, queue, P.running), id)
  rows[index] = { queue and (state or "") or "gone", lease or "", ends_ms or "" }
end
return rows
