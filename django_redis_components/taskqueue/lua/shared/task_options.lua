-- Options that few tasks have: a unique key, an expiry, limits. To be included lazily.
-- @include times
-- @include limit_key
-- @lazy unique: acquire_key, holder_record
-- @lazy unique_conflict: resolve

-- Acquire the unique key. Return the id of the task that has it, if another does, changed as the claim says.
local function acquire_claim(ctx, at_us, due_ms, args, first, last)
  local id, claim = args[first], args[first + 4]
  local manner_and_digest, ttl_ms, on_conflict, max_wait_ms = string.match(claim, "^(%S+) ?(%d*) ?(%a*) ?(%d*)$")
  ttl_ms = ttl_ms ~= "" and ttl_ms or nil
  -- A repeated call has changed a task before, which may have started or finished since.
  local other = on_conflict ~= "" and redis.call("GET", base_key(ctx, K.reply, id))
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
