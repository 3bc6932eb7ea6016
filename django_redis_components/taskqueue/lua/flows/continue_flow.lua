-- Do a step of the work that a flow has left after it was accepted or has ended: see shared/flow_work.lua, and
-- what is left for the followers of its tasks: see shared/flow_pending.lua.
-- Precondition: none; a repetition does the next step.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] flow_id  id
-- DERIVED base:flow:<flow> hash, base:t:<id> hash, base:q:<queue>:ready list, :scheduled, :priority, :waiting, :grouped,
--         :turns zsets, base:sequence string, base:queues, :flow_work, :wakeup:* zsets, base:paused hash, base:limit:* strings
-- Returns 1: more is left; 0: nothing
-- Cost: O(300) times O(log n)
local base = KEYS[1]
local flow_id = ARGV[1]
-- @include flow
-- @lazy flow_steps: do_step

return flow_steps().do_step(new_context(base), flow_id) and 1 or 0
