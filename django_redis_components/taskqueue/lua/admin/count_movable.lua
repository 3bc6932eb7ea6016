-- Count which of these tasks another shard may take, and why the others stay. Writes nothing.
-- Precondition: none; a task that is not pending or failed any more, or entered the state later, is not counted.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] state  failed; any other: pending
-- ARGV[3] until_us  tasks that entered the queue, or failed, until then, in microseconds since the epoch
-- ARGV[4] is_target  1 if new tasks with the same unique keys and limits go to the other shard
-- ARGV[5..] ids  of tasks
-- DERIVED base:t:<id> hash, base:q:<queue>:failed zset, :paused_groups hash, base:holders:* zset
-- Returns {movable, flows, unique, limits, held, groups}: tasks that may be taken; members of flows; those with unique keys,
--         with limits, with limits that running tasks hold, and of paused groups
-- Cost: O(ids)
local base = KEYS[1]
local queue = ARGV[1]
local state = ARGV[2]
local until_us = ARGV[3]
local is_target = ARGV[4]
-- @include movable

local ctx = new_context(base)
local counts = { movable = 0, flow = 0, unique = 0, limit = 0, held = 0, paused_group = 0 }
for index = 5, #ARGV do
  local id, is_there = ARGV[index], false
  if state == S.failed then
    is_there = failed_ms(ctx, id, queue, until_us)
  else
    is_there = pending_task(ctx, id, queue, until_us)
  end
  if is_there then
    local reason = reason_to_stay(ctx, id, queue, is_target) or "movable"
    counts[reason] = counts[reason] + 1
  end
end
return { counts.movable, counts.flow, counts.unique, counts.limit, counts.held, counts.paused_group }
