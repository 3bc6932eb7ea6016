-- Accept several tasks in order, each as enqueue.lua does.
-- Precondition: that of enqueue.lua for each of them; at most 1,000.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1..] tasks  for each task: n, and the n arguments of enqueue.lua
-- DERIVED base:t:<id> hash, base:q:<queue>:ready list, :scheduled, :priority, :grouped, :turns zsets,
--         :purged_at_us string, base:sequence string, base:queues, :wakeup:* zsets, base:paused hash, base:unique:<digest>, :limit:* strings; and
--         of a task that the call changes base:reply:<id> string, base:q:<queue>:* lists, zsets and hashes, base:rate:*
--         string, base:holders:*, :concurrency_waiters:* zsets
-- Returns for each task what enqueue.lua returns: above 0, or {id, record}; no task is accepted after an error
-- Cost: O(tasks) times that of enqueue.lua
local base = KEYS[1]
-- @include accept
-- @lazy task_options: check_conflict

local ctx = new_context(base)

-- Before all others: an error of a later task would leave earlier ones in no list.
local index = 1
while index <= #ARGV do
  if ARGV[index + 5] ~= "" then
    task_options().check_conflict(ctx, ARGV, index + 1)
  end
  index = index + 1 + ARGV[index]
end

local accepted, ready = {}, {}
index = 1
while index <= #ARGV do
  local last = index + ARGV[index]
  local accepted_us, queue = accept_task(ctx, ctx.now_us + #accepted, ARGV, index + 1, last)
  accepted[#accepted + 1] = accepted_us
  if queue then
    ready[queue] = ready[queue] or {}
    table.insert(ready[queue], ARGV[index + 1])
  end
  index = last + 1
end
for queue, ids in pairs(ready) do
  push_ready(ctx, queue, #ids, unpack(ids))
end
return accepted
