-- What a call with on_conflict does to the task that has its unique key.
-- @include group_placement
-- @include times
-- @include states
-- @include pending
-- @include flush
-- @include limit_key
-- @lazy unique: unique_key

-- Fields of options of the earlier call that the later one may not have, and the cursor in what its arguments named.
local OPTIONS = {
  F.expiry, F.concurrency, F.rate, F.fair_share, F.batch, F.max_deliveries, F.origin, F.metadata, F.cursor,
}

local function accepts_any()
  return true
end

-- Take the task out of its queue. Return false if it is in none: enqueue_many.lua lists the tasks that it accepts last.
local function take(ctx, id, queue)
  return #take_pending(ctx, queue, { id }, "", accepts_any) > 0
end

local function place_scheduled(ctx, id, queue, due_ms)
  index_queue(ctx, queue)
  redis.call("HSET", task_key(ctx, id), F.state, S.scheduled, F.due_at_ms, due_ms, F.placed_at_us, ctx.now_us)
  schedule(ctx, queue, id, due_ms)
end

local function place_ready(ctx, id, queue, priority)
  index_queue(ctx, queue)
  redis.call("HDEL", task_key(ctx, id), F.due_at_ms)
  if priority ~= "0" and not place_in_group(ctx, id, queue) then
    redis.call("HSET", task_key(ctx, id), F.state, S.ready, F.placed_at_us, ctx.now_us)
    push_priority(ctx, queue, id, priority)
  elseif priority == "0" then
    requeue_behind(ctx, id, queue, P.ready)
  end
  notify_queue(ctx, queue)
end

-- Give the task the arguments and the options of the call, as if it had been the first. A task that waits for its next
-- attempt does not run earlier.
local function replace(ctx, id, call)
  local record = task_key(ctx, id)
  local queue, state, priority, own_due_ms, concurrency, rate, share = unpack(redis.call("HMGET", record,
    F.queue, F.state, F.priority, F.due_at_ms, F.concurrency, F.rate, F.fair_share))
  local fields = {}
  for index = 1, #call.fields, 2 do
    fields[call.fields[index]] = call.fields[index + 1]
  end
  local due_ms = state == S.retrying and math.max(call.due_ms, tonumber(own_due_ms or 0)) or call.due_ms
  local needs_place = queue ~= call.queue or (priority or "0") ~= call.priority or due_ms > ctx.now_ms
    or tonumber(own_due_ms or 0) > ctx.now_ms or (concurrency or "") ~= (fields[F.concurrency] or "")
    or (rate or "") ~= (fields[F.rate] or "") or (share or "") ~= (fields[F.fair_share] or "")
  local is_taken = needs_place and take(ctx, id, queue)
  if is_taken then
    redis.call("HDEL", record, F.priority)
  else
    fields[F.priority] = nil
  end
  fields[F.nonce] = nil -- it identifies the call that the id was chosen for
  redis.call("HDEL", record, unpack(OPTIONS))
  for field, value in pairs(fields) do
    redis.call("HSET", record, field, value)
  end
  store_limits(ctx, call.fields, 1, #call.fields)
  redis.call("HSET", record, F.unique_claim, call.claim)
  redis.call("SET", unique().unique_key(ctx, call.claim), id, unpack(call.ttl_ms and { "PX", call.ttl_ms } or {}))
  if call.expires ~= "" then
    redis.call("HSET", record, F.expiry, parse_expiry(call.expires, call.at_us, due_ms))
  end
  if not is_taken then
    return
  end
  redis.call("HSET", record, F.queue, call.queue)
  if due_ms > ctx.now_ms then
    place_scheduled(ctx, id, call.queue, due_ms)
  else
    place_ready(ctx, id, call.queue, call.priority)
  end
end

-- Make the task due when the call is, if that is later. One that was leased before waits for its next attempt, or was
-- recovered, and stays where it is.
local function extend(ctx, id, call)
  local record = task_key(ctx, id)
  local queue, own_due_ms, first_leased_us, own_claim = unpack(redis.call("HMGET", record,
    F.queue, F.due_at_ms, F.first_leased_at_us, F.unique_claim))
  if call.ttl_ms and string.sub(own_claim or "", 1, 1) == "t" then
    redis.call("PEXPIRE", unique().unique_key(ctx, call.claim), call.ttl_ms, "GT")
  end
  local is_later = call.due_ms > math.max(tonumber(own_due_ms or 0), ctx.now_ms)
  if first_leased_us or not is_later or not take(ctx, id, queue) then
    return
  end
  if call.expires ~= "" then
    redis.call("HSET", record, F.expiry, parse_expiry(call.expires, call.at_us, call.due_ms))
  end
  place_scheduled(ctx, id, queue, call.due_ms)
end

-- Raise an error if the task that a call would change is being moved: the other shard may have a copy already.
local function check_place(ctx, id)
  if redis.call("HEXISTS", task_key(ctx, id), F.moving) == 1 then
    error(redis.error_reply("TASKMOVING The task with the unique key is being moved to another shard: it was not changed."))
  end
end

-- Apply a call to the task that has its unique key, if that task is pending. `call`: id, queue, due_ms, priority, claim, ttl_ms,
-- expires, at_us, fields; and max_wait_ms, if the task must be due by that time after its first call.
local function resolve(ctx, id, on_conflict, call)
  check_place(ctx, id)
  local state, accepted_us = unpack(redis.call("HMGET", task_key(ctx, id), F.state, F.enqueued_at_us))
  if state ~= S.running and not is_final(state) then
    if call.max_wait_ms then
      call.due_ms = math.min(call.due_ms, math.ceil(accepted_us / 1000) + call.max_wait_ms)
    end
    local apply = on_conflict == "replace" and replace or extend
    apply(ctx, id, call)
    flush(ctx)
  end
  redis.call("SET", base_key(ctx, K.reply, call.id), id, "PX", T.reply_ms)
end
