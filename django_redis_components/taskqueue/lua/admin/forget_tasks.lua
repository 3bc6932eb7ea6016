-- Delete tasks that another shard has taken; last step of a move here. For as long as a client may repeat a call, it is still
-- known that they were accepted.
-- Precondition: the other shard has accepted them.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1..] tasks  for each task its id, and the op of its export
-- DERIVED base:t:<id>, base:moving_task:<id> hashes, :errors, :done lists, base:moving zset, base:unique:<digest> string
-- Returns n: tasks that were deleted by this call
-- Cost: O(tasks)
local base = KEYS[1]
-- @include context
-- @include results: notify_waiters
-- @lazy unique: release

local ctx = new_context(base)
local forgotten = 0
for index = 1, #ARGV, 2 do
  local id, op = ARGV[index], ARGV[index + 1]
  local record, aside = task_key(ctx, id), base_key(ctx, K.moving_task, id)
  local note = redis.call("HGET", record, F.moving)
  if note and string.match(note, "^%S+ (%S+)") == op then
    local waiters, claim = unpack(redis.call("HMGET", aside, F.waiters, F.unique_claim))
    if claim then -- the other shard has it
      unique().release(ctx, id, claim, false)
    end
    redis.call("UNLINK", aside, aside .. ":errors")
    redis.call("ZREM", base_key(ctx, K.moving), id)
    redis.call("HDEL", record, F.moving, F.body)
    redis.call("PEXPIRE", record, T.reply_ms)
    notify_waiters(ctx, id, waiters)
    forgotten = forgotten + 1
  end
end
return forgotten
