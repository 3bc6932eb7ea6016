-- Accept several tasks in order, each as enqueue.lua does.
-- Precondition: that of enqueue.lua for each of them; at most 1,000.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1..] tasks  for each task: n, and the n arguments of enqueue.lua
-- DERIVED base:t:<id> hash, base:q:<queue>:ready list, :scheduled, :priority zsets, :purged_at_us string,
--         base:sequence string, base:queues, :wakeup:* zsets, base:paused hash, base:unique:<digest>, :limit:* strings
-- Returns for each task what enqueue.lua returns: above 0, or {id, record}
-- Cost: O(tasks) times O(log n) in the tasks scheduled or with a priority, else O(tasks)
local base = KEYS[1]
-- @include accept

local ctx = new_context(base)
local accepted = {}
local at = 1
while at <= #ARGV do
  local last = at + ARGV[at]
  accepted[#accepted + 1] = accept_task(ctx, ARGV, at + 1, last)
  at = last + 1
end
push_accepted(ctx)
return accepted
