-- Pause a group of a queue: workers start none of its tasks; running ones continue.
-- Precondition: none; a paused group gets the new note.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] group  name
-- ARGV[3] note  JSON: reason, author
-- DERIVED base:q:<queue>:paused_groups hash
-- Returns 1: paused
-- Returns 0: too many groups of the queue are paused
-- Cost: O(1)
local base = KEYS[1]
local queue = ARGV[1]
local group = ARGV[2]
local note = ARGV[3]
-- @include context

-- Most paused groups of a queue: pages list all of them.
local MAX_PAUSED_GROUPS = 200
local ctx = new_context(base)
local paused = queue_key(ctx, queue, P.paused_groups)
if redis.call("HEXISTS", paused, group) == 0 and redis.call("HLEN", paused) >= MAX_PAUSED_GROUPS then
  return 0
end
redis.call("HSET", paused, group, string.format("0|%.0f|%s", ctx.now_ms, note))
return 1
