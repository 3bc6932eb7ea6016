-- Resume a queue, and notify a worker.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] op  id of the operation, new for each
-- DERIVED base:paused hash, base:wakeup:* zset, base:reply:<op> string
-- Returns {1}: it was paused
-- Returns {0}: it was not
-- Cost: O(1)
local base = KEYS[1]
local queue = ARGV[1]
local op = ARGV[2]
-- @include wakeups
-- @include idempotency

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local paused = base_key(ctx, K.paused)
local pause = redis.call("HGET", paused, queue)
if not pause then
  return reply(ctx, op, { 0 })
end
redis.call("HDEL", paused, queue)
notify(ctx, "q:" .. queue)
return reply(ctx, op, { has_pause_ended(ctx, pause) and 0 or 1 })
