-- Readers together or one writer, in the order of one queue. Reads in ctx: writer, readers, fence, now_us, now_ms.
-- @include fence

-- Return the context of a call, after removing expired leases of readers; the writer's key expires by itself.
local function open_readwrite(writer, readers, fence, queue, handoff_ms, now_us)
  local now_ms = math.floor(now_us / 1000)
  redis.call("ZREMRANGEBYSCORE", readers, "-inf", now_ms)
  return {
    base = writer, writer = writer, readers = readers, fence = fence, queue = queue, handoff_ms = handoff_ms,
    now_us = now_us, now_ms = now_ms,
  }
end

local function is_reader(token)
  return string.sub(token, -2) == ":r"
end

-- Return the milliseconds left of a token's lease; nil when it holds nothing.
local function left_of(ctx, token)
  if is_reader(token) then
    local until_ms = redis.call("ZSCORE", ctx.readers, token)
    return until_ms and tonumber(until_ms) - ctx.now_ms or nil
  end
  return redis.call("GET", ctx.writer) == token and redis.call("PTTL", ctx.writer) or nil
end

local function set_lease(ctx, token, ttl_ms)
  if not is_reader(token) then
    redis.call("SET", ctx.writer, token, "PX", ttl_ms)
    return
  end
  redis.call("ZADD", ctx.readers, ctx.now_ms + ttl_ms, token)
  if redis.call("PTTL", ctx.readers) < ttl_ms then
    redis.call("PEXPIRE", ctx.readers, ttl_ms)
  end
end

local function holds(ctx, token)
  return left_of(ctx, token) ~= nil
end

-- Return whether a waiter can be granted: a reader beside readers, a writer alone.
local function fits(ctx, token)
  return redis.call("EXISTS", ctx.writer) == 0 and (is_reader(token) or redis.call("EXISTS", ctx.readers) == 0)
end

-- Grant a token, and return its number: a writer's fencing token, 1 for a reader.
local function grant(ctx, token, ttl_ms)
  set_lease(ctx, token, ttl_ms)
  return is_reader(token) and 1 or next_fence(ctx.fence, ctx.now_us, ttl_ms)
end

local function revoke(ctx, token)
  if is_reader(token) then
    redis.call("ZREM", ctx.readers, token)
  else
    redis.call("DEL", ctx.writer)
  end
end
