-- Options that few tasks have: a unique key, an expiry, limits. To be included lazily.
-- @include times
-- @include limit_key
-- @lazy unique: acquire_key, holder_record, other_holder
-- @lazy unique_conflict: resolve, check_place

-- Return the manner and digest, the TTL, on_conflict and the longest wait of a claim.
local function parse_claim(claim)
  return string.match(claim, "^(%S+) ?(%d*) ?(%a*) ?(%d*)$")
end

-- Return the id of the task that a call with on_conflict has changed, if it is a repetition.
local function changed_before(ctx, id)
  return redis.call("GET", base_key(ctx, K.reply, id))
end

-- Acquire the unique key. Return the id of the task that has it, if another does, changed as the claim says.
local function acquire_claim(ctx, at_us, due_ms, args, first, last)
  local id, claim = args[first], args[first + 4]
  local manner_and_digest, ttl_ms, on_conflict, max_wait_ms = parse_claim(claim)
  ttl_ms = ttl_ms ~= "" and ttl_ms or nil
  -- A repeated call has changed a task before, which may have started or finished since.
  local other = on_conflict ~= "" and changed_before(ctx, id)
  if other then
    return other
  end
  other = unique().acquire_key(ctx, id, manner_and_digest, ttl_ms)
  if other and on_conflict ~= "" then
    unique_conflict().resolve(ctx, other, on_conflict, {
      id = id, queue = args[first + 1], due_ms = due_ms, priority = args[first + 3], claim = manner_and_digest,
      ttl_ms = ttl_ms, expires = args[first + 5], at_us = at_us, fields = { unpack(args, first + 6, last) },
      max_wait_ms = tonumber(max_wait_ms),
    })
  elseif not other then
    redis.call("HSET", task_key(ctx, id), F.unique_claim, manner_and_digest)
  end
  return other
end

-- Raise the error of the call that args[first] and the following describe, if it would change a task that cannot be changed.
local function check_conflict(ctx, args, first)
  local id, claim = args[first], args[first + 4]
  local manner_and_digest, _, on_conflict = parse_claim(claim)
  if on_conflict == "" or redis.call("HEXISTS", task_key(ctx, id), F.enqueued_at_us) == 1 or changed_before(ctx, id) then
    return
  end
  local other = unique().other_holder(ctx, id, manner_and_digest)
  if other then
    unique_conflict().check_place(ctx, other)
  end
end

-- Return the record of the task that has a unique key.
local function read_holder(ctx, id)
  return redis.call("HGETALL", (unique().holder_record(ctx, id)))
end

-- Write the unique claim and the expiry of the task that args[first] to args[last] describe, as enqueue.lua takes it.
-- Return the id of the task that has the unique key, if another has it.
local function store_claim_and_expiry(ctx, at_us, due_ms, args, first, last)
  local id, expires = args[first], args[first + 5]
  local other = args[first + 4] ~= "" and acquire_claim(ctx, at_us, due_ms, args, first, last)
  if not other and expires ~= "" then
    redis.call("HSET", task_key(ctx, id), F.expiry, parse_expiry(expires, at_us, due_ms))
  end
  return other
end
