-- Resume a group of a queue: it has turns again, behind the other groups. Notify a worker.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] group  name
-- ARGV[3] op  id of the operation, new for each
-- DERIVED base:q:<queue>:paused_groups hash, :grouped, :turns zsets, base:t:<id> hash, base:paused hash, base:wakeup:* zset,
--         base:sequence, :reply:<op> strings
-- Returns {1}: it was paused
-- Returns {0}: it was not
-- Cost: O(log n)
local base = KEYS[1]
local queue = ARGV[1]
local group = ARGV[2]
local op = ARGV[3]
-- @include groups
-- @include idempotency
-- @include wakeups

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local was_paused = redis.call("HDEL", queue_key(ctx, queue, P.paused_groups), group)
if first_since_us(ctx, queue, group) then
  enter_turns(ctx, queue, group)
  notify_queue(ctx, queue)
end
return reply(ctx, op, { was_paused })
