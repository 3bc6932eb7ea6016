-- Options that few tasks have: a unique key, an expiry, limits. To be included lazily.
-- @include times
-- @include limit_key
-- @lazy unique: acquire_key

-- Write the unique claim and the expiry. Return the id of the task that has the unique key, if another has it.
local function store_claim_and_expiry(ctx, id, claim, expires, at_us, due_ms)
  if claim ~= "" then
    local manner_and_digest, ttl_ms = string.match(claim, "^(%S+) ?(%d*)$")
    local other = unique().acquire_key(ctx, id, manner_and_digest, ttl_ms ~= "" and ttl_ms or nil)
    if other then
      return other
    end
    redis.call("HSET", task_key(ctx, id), F.unique_claim, manner_and_digest)
  end
  if expires ~= "" then
    redis.call("HSET", task_key(ctx, id), F.expiry, parse_expiry(expires, at_us, due_ms))
  end
end
