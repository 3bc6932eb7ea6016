-- @include context

-- Return the ids that an operation applies to: args[first] and those after it, or without any the oldest of a queue's
-- zset up to a moment, after `skip` of them.
local function select_ids(ctx, queue, part, up_to_ms, skip, limit, args, first)
  if #args < first then
    return redis.call("ZRANGEBYSCORE", queue_key(ctx, queue, part), "-inf", up_to_ms, "LIMIT", skip, limit)
  end
  return { unpack(args, first) }
end

-- Return whether a task entered its zset until a moment; false if it is not there.
local function is_until(score, up_to_ms)
  return score and tonumber(score) <= tonumber(up_to_ms)
end
