-- The permits of a semaphore. A permit's id ends in ":<how many it counts for>:<the limit it was requested under>". Each
-- one it counts for is a member of `holders`: the id itself, then <id>#2 and so on.
-- Reads in ctx: holders, common_limit, now_ms.

-- Return the context of a call, after removing expired permits. common_limit is the limit that was set for all callers;
-- without one each permit has the one it was requested under.
local function open_permits(holders, limit, now_us, queue, handoff_ms)
  local now_ms = math.floor(now_us / 1000)
  redis.call("ZREMRANGEBYSCORE", holders, "-inf", now_ms)
  return {
    base = holders, holders = holders, queue = queue, common_limit = tonumber(redis.call("GET", limit) or ""),
    handoff_ms = handoff_ms, now_us = now_us, now_ms = now_ms,
  }
end

-- Return how many a permit counts for, and the limit in force.
local function count_and_limit(ctx, permit)
  local count, own_limit = string.match(permit, ":(%d+):(%d+)$")
  return tonumber(count), ctx.common_limit or tonumber(own_limit)
end

local function has_room(ctx, permit)
  local count, limit = count_and_limit(ctx, permit)
  return redis.call("ZCARD", ctx.holders) + count <= limit
end

-- Grant a permit, or set its lease anew, and return 1. The key lives as long as the last permit in it.
local function grant(ctx, permit, ttl_ms)
  redis.call("ZADD", ctx.holders, ctx.now_ms + ttl_ms, permit)
  for number = 2, (count_and_limit(ctx, permit)) do
    redis.call("ZADD", ctx.holders, ctx.now_ms + ttl_ms, permit .. "#" .. number)
  end
  if redis.call("PEXPIRE", ctx.holders, ttl_ms, "GT") == 0 then
    redis.call("PEXPIRE", ctx.holders, ttl_ms, "NX")
  end
  return 1
end

-- Revoke a permit, and return 1 if it was held.
local function revoke(ctx, permit)
  local held = redis.call("ZREM", ctx.holders, permit)
  for number = 2, (count_and_limit(ctx, permit)) do
    redis.call("ZREM", ctx.holders, permit .. "#" .. number)
  end
  return held
end
