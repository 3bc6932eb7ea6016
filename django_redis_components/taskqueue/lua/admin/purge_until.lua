-- Move the pending tasks that entered a queue until a moment into trash; a part of them in one call. Later ones stay.
-- Precondition: none; the caller repeats it with the arguments that it returns.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] trash  id
-- ARGV[3] until_us  microseconds since the epoch
-- ARGV[4] sequence  the highest number of a task with a priority
-- ARGV[5] part  number, 1 in the first call
-- ARGV[6] skip  how many of the part's first tasks are passed over: those that an earlier call looked at and that stayed
-- ARGV[7] limit  maximum number of tasks
-- ARGV[8] op  id of the operation, new for each
-- DERIVED base:q:<queue>:* lists, zsets, hashes and strings, base:trash:<trash>:* lists and zsets, base:trash_index,
--         :wakeup:* zsets, base:t:<id>, :paused hashes, base:reply:<op>, :limit:*, :rate:* strings, base:holders:*,
--         :concurrency_waiters:* zsets
-- Returns {n, part, skip}: n tasks moved; the arguments of the next call, part 0 when all were looked at
-- Cost: O(limit log n); in the requeued list O(limit * skip)
local base = KEYS[1]
local queue = ARGV[1]
local trash = ARGV[2]
local until_us = tonumber(ARGV[3])
local sequence = tonumber(ARGV[4])
local part = tonumber(ARGV[5])
local skip = tonumber(ARGV[6])
local limit = tonumber(ARGV[7])
local op = ARGV[8]
-- @include entry_time
-- @include flush
-- @include idempotency
-- @include trash
-- @lazy groups: forget_turns
-- @lazy limit_queue: leave

local ctx = new_context(base)
local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local name = PENDING[part]
-- Tasks of groups are put beside those that waited for a limit: processes of a version without groups restore and delete those.
local from, to = queue_key(ctx, queue, name), trash_key(ctx, trash, name == P.grouped and P.limited or name)

-- Append ids to a list of the trash, without those of cancelled or deleted tasks. Return how many.
local function append(ids)
  local tombstones = queue_key(ctx, queue, P.tombstones)
  local tombstone_count, moved = tonumber(redis.call("GET", tombstones) or 0), 0
  for _, id in ipairs(ids) do
    local is_dead = false
    if tombstone_count > 0 then
      local own_queue, state = unpack(redis.call("HMGET", task_key(ctx, id), F.queue, F.state))
      is_dead = not own_queue or state == S.cancelled
    end
    if is_dead then
      tombstone_count = redis.call("DECR", tombstones)
    else
      redis.call("RPUSH", to, id)
      moved = moved + 1
    end
  end
  return moved
end

-- The ready list is in the order in which its tasks entered it: the first later one ends it.
local function move_ready()
  local ids = redis.call("LRANGE", from, 0, limit - 1)
  local count = #ids
  while count > 0 and (entered_us(ctx, ids[count]) or 0) > until_us do
    ids[count] = nil
    count = count - 1
  end
  if count > 0 then
    redis.call("LPOP", from, count)
  end
  return append(ids), count < limit, 0
end

local function move_requeued()
  local ids, selected = redis.call("LRANGE", from, skip, skip + limit - 1), {}
  for index, id in ipairs(ids) do
    if (entered_us(ctx, id) or 0) <= until_us then
      selected[#selected + 1] = id
      redis.call("LSET", from, skip + index - 1, "")
    end
  end
  redis.call("LREM", from, 0, "")
  return append(selected), #ids < limit, #ids - #selected
end

local is_selected = {
  -- A score is -priority * 1e13 + number; restored tasks have priorities of half a point, too.
  [P.priority] = function(_, score)
    return tonumber(score) % 5e12 <= sequence
  end,
  [P.limited] = function(id)
    return tonumber(redis.call("HGET", task_key(ctx, id), F.enqueued_at_us) or 0) <= until_us
  end,
  [P.scheduled] = function(id)
    return (entered_us(ctx, id) or 0) <= until_us
  end,
  [P.grouped] = function(id)
    return (entered_us(ctx, id) or 0) <= until_us
  end,
}

local function move_scored()
  local members, moved = redis.call("ZRANGE", from, skip, skip + limit - 1, "WITHSCORES"), 0
  for index = 1, #members, 2 do
    local member, score = members[index], members[index + 1]
    local id = string.match(member, "[^\t]+$")
    if is_selected[name](id, score) then
      redis.call("ZREM", from, member)
      redis.call("ZADD", to, score, member)
      if name == P.scheduled then
        redis.call("ZREM", queue_key(ctx, queue, P.retrying), id)
      end
      if name == P.scheduled or name == P.grouped then
        limit_queue().leave(ctx, id, queue) -- another task gets the start that was reserved for it
      end
      moved = moved + 1
    end
  end
  return moved, #members < limit * 2, #members / 2 - moved
end

if part == 1 and skip == 0 then
  -- A task that is cancelled in the trash is no tombstone. The TTL is longer than the trash's.
  local purged_at = queue_key(ctx, queue, P.purged_at_us)
  local latest_us = math.max(until_us, tonumber(redis.call("GET", purged_at) or 0))
  redis.call("SET", purged_at, string.format("%.0f", latest_us), "PX", T.purged_ms)
end
local moves = { [P.ready] = move_ready, [P.requeued] = move_requeued }
local moved, is_done, stayed = (moves[name] or move_scored)()
if name == P.grouped and moved > 0 then
  groups().forget_turns(ctx, queue)
end
if moved > 0 then
  redis.call("ZADD", base_key(ctx, K.trash_index), "NX", ctx.now_ms, queue .. "/" .. trash)
end
flush(ctx)
local next_part, next_skip = part, skip + stayed
if is_done then
  next_part, next_skip = part < #PENDING and part + 1 or 0, 0
end
return reply(ctx, op, { moved, next_part, next_skip })
