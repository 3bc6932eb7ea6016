-- Delete trash that was not restored in time; a part of it in one call.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] keep_ms  how long trash is kept
-- ARGV[2] limit  maximum number of tasks
-- DERIVED base:trash_index zset, base:trash:<trash>:* lists and zsets, base:t:<id> hash, :errors, :done lists,
--         base:unique:<digest>, :sequence strings, base:flow:<flow>, :paused hashes, base:q:<queue>:* lists, zsets, hashes
--         and strings, base:queues, :unfinished_flows, :wakeup:* zsets
-- Returns {n, has_more}: n tasks deleted; has_more 1 when another call finds more, else 0
-- Cost: O(limit log n)
local base = KEYS[1]
local keep_ms = tonumber(ARGV[1])
local limit = tonumber(ARGV[2])
-- @include flush
-- @include trash
-- @include termination

local ctx = new_context(base)
local index, oldest_ms = base_key(ctx, K.trash_index), ctx.now_ms - keep_ms
local old = redis.call("ZRANGEBYSCORE", index, "-inf", oldest_ms, "LIMIT", 0, 1)[1]
if not old then
  return { 0, 0 }
end
local trash = string.match(old, "[^/]+$")
local popped = pop_trash(ctx, trash, limit)
for _, entry in ipairs(popped) do
  delete_task(ctx, entry[1])
end
if not has_trash(ctx, trash) then
  redis.call("ZREM", index, old)
end
flush(ctx)
return { #popped, redis.call("ZCOUNT", index, "-inf", oldest_ms) > 0 and 1 or 0 }
