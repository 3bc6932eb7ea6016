-- Leases that are members of a zset: token -> server time in ms at which its lease ends.
-- @include clock
-- @include integer

-- Remove expired leases, and return whether there were any.
local function purge(ctx, key)
  read_clock(ctx)
  return redis.call("ZREMRANGEBYSCORE", key, "-inf", ctx.now_ms) > 0
end

-- Return the milliseconds left of a lease; nil without one.
local function member_left_ms(ctx, key, member)
  read_clock(ctx)
  local left_ms = tonumber(redis.call("ZSCORE", key, member) or 0) - ctx.now_ms
  return left_ms > 0 and left_ms or nil
end

-- Set a lease. The key lives as long as its last member.
local function set_member(ctx, key, member, ttl_ms)
  read_clock(ctx)
  redis.call("ZADD", key, integer(ctx.now_ms + ttl_ms), member)
  if redis.call("PEXPIRE", key, ttl_ms, "GT") == 0 then
    redis.call("PEXPIRE", key, ttl_ms, "NX")
  end
end

-- Set a lease if the member has none, and return whether it had none.
local function add_member(ctx, key, member, ttl_ms)
  if redis.call("ZSCORE", key, member) then
    return false
  end
  set_member(ctx, key, member, ttl_ms)
  return true
end

-- Count the leases that have not expired.
local function count_members(ctx, key)
  return redis.call("ZCOUNT", key, "(" .. integer(ctx.now_ms), "+inf")
end

-- Return members and the milliseconds left of their leases in turn, in order of expiry.
local function list_members(ctx, key, most)
  local unexpired = "(" .. integer(ctx.now_ms)
  local leases = redis.call("ZRANGE", key, unexpired, "+inf", "BYSCORE", "LIMIT", 0, most, "WITHSCORES")
  for index = 2, #leases, 2 do
    leases[index] = leases[index] - ctx.now_ms
  end
  return leases
end
