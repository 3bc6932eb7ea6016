-- Remove all pending tasks of a queue into trash, from which they can be restored for a day.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] op  id of the operation and of the trash, new for each
-- DERIVED base:q:<queue>:requeued, :ready lists, :priority, :scheduled, :retrying, :limited, :grouped, :turns, :waiting zsets, :reserved hash,
--         :tombstones, :purged_at_us strings, base:trash:<trash>:* lists and zsets, base:trash_index zset,
--         base:reply:<op> string
-- Returns {n, m}: n tasks removed, without any there is no trash; m tasks that stay, since they wait for other tasks and
--         are in no list of the queue yet
-- Cost: O(1), whatever the number of tasks
local base = KEYS[1]
local queue = ARGV[1]
local op = ARGV[2]
-- @include idempotency
-- @include trash

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local removed = 0
-- Where tasks of groups are put, if it is free: processes of a version without groups restore and delete those.
local function trash_part(part)
  return part == P.grouped and redis.call("EXISTS", trash_key(ctx, op, P.limited)) == 0 and P.limited or part
end

for _, part in ipairs(PENDING) do
  local from, to = queue_key(ctx, queue, part), trash_key(ctx, op, trash_part(part))
  if redis.call("EXISTS", from) == 1 then
    redis.call("RENAME", from, to)
    local is_list = part == P.requeued or part == P.ready
    removed = removed + redis.call(is_list and "LLEN" or "ZCARD", to)
  end
end
local tombstones = queue_key(ctx, queue, P.tombstones)
removed = removed - tonumber(redis.call("GET", tombstones) or 0)
redis.call("UNLINK", tombstones, queue_key(ctx, queue, P.reserved), queue_key(ctx, queue, P.retrying),
  queue_key(ctx, queue, P.turns))
-- A task that is cancelled in the trash is no tombstone. The TTL is longer than the trash's.
redis.call("SET", queue_key(ctx, queue, P.purged_at_us), ctx.now_us, "PX", T.purged_ms)
if removed > 0 then
  redis.call("ZADD", base_key(ctx, K.trash_index), ctx.now_ms, queue .. "/" .. op)
else
  redis.call("UNLINK", trash_key(ctx, op, P.requeued), trash_key(ctx, op, P.ready))
end
return reply(ctx, op, { removed, redis.call("ZCARD", queue_key(ctx, queue, P.waiting)) })
