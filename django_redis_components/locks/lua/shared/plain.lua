-- The kind of `Lock`: one holder. base is a string, the holder's token. options is "fair" for waiters in FIFO order, or
-- "unfair" for the first that asks. Keys: base, <base>:fence. Cost: O(1).
-- @include fence
-- @include one_queue

local function is_ordered(ctx)
  return ctx.options ~= "unfair"
end

local function limit_of()
  return 1, false
end

local function expire()
  return false
end

local function left_ms(ctx, token)
  return redis.call("GET", ctx.base) == token and redis.call("PTTL", ctx.base) or nil
end

local function grant(ctx, token, ttl_ms)
  if not redis.call("SET", ctx.base, token, "NX", "GET", "PX", ttl_ms) then
    return next_fence(ctx.base .. ":fence", ctx.now_us, ttl_ms)
  end
end

local function renew(ctx, _, ttl_ms)
  redis.call("PEXPIRE", ctx.base, ttl_ms)
  return keep_fence(ctx.base .. ":fence", ctx.now_us, ttl_ms)
end

local function revoke(ctx, token, description)
  if redis.call("GET", ctx.base) ~= token then
    return false, false
  end
  redis.call("DEL", ctx.base, description or ctx.base)
  return true, true
end

local function wait_ms(ctx)
  return redis.call("PTTL", ctx.base)
end

local function number_of(ctx)
  return read_fence(ctx.base .. ":fence")
end

local function describe_objects(ctx)
  local holder = redis.call("GET", ctx.base)
  local holders = holder and { holder, redis.call("PTTL", ctx.base) } or {}
  return { { queue = ctx.queue, held = #holders / 2, limit = 1, number = number_of(ctx), holders = holders } }
end
