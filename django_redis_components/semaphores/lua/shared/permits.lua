-- The kind of `Semaphore`. A token, or permit, ends in ":<how many it counts for>:<the limit it was requested under>".
-- base is a zset of permits. Each one that a permit counts for is a member: the permit itself, then <permit>#2 and so on.
-- options is empty. Keys: base; <base>:limit, the limit that was set for all callers. Cost: O(log permits) for each permit
-- that is counted, granted, or found expired.
-- @include members
-- @include one_queue

local function is_ordered()
  return true
end

-- Return how many a permit counts for, and the limit in force: the one for all, else that which it was requested under.
local function count_and_limit(ctx, permit)
  local count, limit = string.match(permit, ":(%d+):(%d+)$")
  return tonumber(count), tonumber(redis.call("GET", ctx.base .. ":limit") or limit)
end

local function limit_of(ctx, permit)
  local count, limit = count_and_limit(ctx, permit)
  return limit, count > limit
end

local function expire(ctx)
  return purge(ctx, ctx.base)
end

local function left_ms(ctx, permit)
  return member_left_ms(ctx, ctx.base, permit)
end

local function grant(ctx, permit, ttl_ms)
  local count, limit = count_and_limit(ctx, permit)
  local others, ends_ms = redis.call("ZCARD", ctx.base), math.floor(ctx.now_us / 1000) + ttl_ms
  if others + count > limit or redis.call("ZADD", ctx.base, "NX", ends_ms, permit) == 0 then
    return nil
  end
  for number = 2, count do
    redis.call("ZADD", ctx.base, ends_ms, permit .. "#" .. number)
  end
  redis.call("PEXPIRE", ctx.base, ttl_ms, others == 0 and "NX" or "GT")
  return 1
end

local function renew(ctx, permit, ttl_ms)
  for number = 2, (count_and_limit(ctx, permit)) do
    set_member(ctx, ctx.base, permit .. "#" .. number, ttl_ms)
  end
  set_member(ctx, ctx.base, permit, ttl_ms)
  return 1
end

local function revoke(ctx, permit, description)
  local has_expired = purge(ctx, ctx.base)
  local is_held = redis.call("ZREM", ctx.base, permit) == 1
  for number = 2, tonumber(string.match(permit, ":(%d+):%d+$")) do
    redis.call("ZREM", ctx.base, permit .. "#" .. number)
  end
  if is_held and description then
    redis.call("DEL", description)
  end
  return is_held, is_held or has_expired
end

local function wait_ms(ctx)
  local ends = redis.call("ZRANGE", ctx.base, 0, 0, "WITHSCORES")[2]
  return ends and ends - ctx.now_ms or -1
end

local function number_of()
  return 1
end

local function describe_objects(ctx, most)
  local limit, holders = tonumber(redis.call("GET", ctx.base .. ":limit") or 0) or 0, {}
  local members = list_members(ctx, ctx.base, most)
  for index = 1, #members, 2 do
    if not string.find(members[index], "#", 1, true) then -- the second and further permits of a lease
      holders[#holders + 1], holders[#holders + 2] = members[index], members[index + 1]
    end
  end
  return { { queue = ctx.queue, held = count_members(ctx, ctx.base), limit = limit, number = 0, holders = holders } }
end
