-- Return tasks that another shard has refused to their queue: a move of these ends here.
-- Precondition: the other shard has refused them, and refuses them for this move ever after.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] failed_ttl_ms  how long failed tasks are kept
-- ARGV[2..] tasks  for each task its id, and the op of its export
-- DERIVED base:t:<id>, base:moving_task:<id> hashes, :errors lists, base:moving zset, base:q:<queue>:* lists and zsets,
--         base:queues, :wakeup:* zsets, base:paused hash, base:sequence string
-- Returns n: tasks that were returned by this call
-- Cost: O(log n) for each task
local base = KEYS[1]
local failed_ttl_ms = ARGV[1]
-- @include place_moved

local ctx = new_context(base)
local returned = 0
for index = 2, #ARGV, 2 do
  local id, op = ARGV[index], ARGV[index + 1]
  local record, aside = task_key(ctx, id), base_key(ctx, K.moving_task, id)
  local note = redis.call("HGET", record, F.moving) or ""
  local _, own_op, part, score = string.match(note, "^(%S+) (%S+) (%S+) (%S+)$")
  local queue = own_op == op and redis.call("HGET", aside, F.queue)
  if queue then -- else another process has done so, or the record has expired
    redis.call("RENAME", aside, record)
    redis.call("HDEL", record, F.moving)
    if redis.call("EXISTS", aside .. ":errors") == 1 then
      redis.call("RENAME", aside .. ":errors", record .. ":errors")
    end
    redis.call("ZREM", base_key(ctx, K.moving), id)
    place_moved(ctx, id, queue, part, score, failed_ttl_ms)
    returned = returned + 1
  end
end
if returned > 0 then
  notify(ctx, "poller")
end
return returned
