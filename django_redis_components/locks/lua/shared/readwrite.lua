-- The kind of `ReadWriteLock`: readers together or one writer, in the order of one queue. A token ends in ":r" for a
-- reader, in ":w" for a writer. base is a string, the writer's token; its name ends in "writer". options is empty.
-- Keys: base; beside it "readers", a zset of readers' tokens, and "fence". Cost: O(log readers).
-- @include fence
-- @include members
-- @include one_queue

local function is_reader(token)
  return string.sub(token, -2) == ":r"
end

local function sibling(ctx, part)
  return string.sub(ctx.base, 1, -7) .. part
end

local function is_ordered()
  return true
end

local function limit_of()
  return 0, false
end

local function expire(ctx)
  return purge(ctx, sibling(ctx, "readers"))
end

local function left_ms(ctx, token)
  if is_reader(token) then
    return member_left_ms(ctx, sibling(ctx, "readers"), token)
  end
  return redis.call("GET", ctx.base) == token and redis.call("PTTL", ctx.base) or nil
end

local function grant(ctx, token, ttl_ms)
  local readers = sibling(ctx, "readers")
  if is_reader(token) then
    return redis.call("EXISTS", ctx.base) == 0 and add_member(ctx, readers, token, ttl_ms) and 1 or nil
  end
  if redis.call("EXISTS", readers) == 0 and not redis.call("SET", ctx.base, token, "NX", "GET", "PX", ttl_ms) then
    return next_fence(sibling(ctx, "fence"), ctx.now_us, ttl_ms)
  end
end

local function renew(ctx, token, ttl_ms)
  if is_reader(token) then
    set_member(ctx, sibling(ctx, "readers"), token, ttl_ms)
    return 1
  end
  redis.call("PEXPIRE", ctx.base, ttl_ms)
  return keep_fence(sibling(ctx, "fence"), ctx.now_us, ttl_ms)
end

local function revoke(ctx, token, description)
  expire(ctx)
  local is_held
  if is_reader(token) then
    is_held = redis.call("ZREM", sibling(ctx, "readers"), token) == 1
  else
    is_held = redis.call("GET", ctx.base) == token and redis.call("DEL", ctx.base) == 1
  end
  if is_held and description then
    redis.call("DEL", description)
  end
  return is_held, is_held
end

local function wait_ms(ctx)
  local remaining_ms = redis.call("PTTL", ctx.base)
  if remaining_ms == -2 and not is_reader(ctx.token) then
    local last = redis.call("ZRANGE", sibling(ctx, "readers"), "-1", "-1", "WITHSCORES")[2]
    remaining_ms = last and tonumber(last) - ctx.now_ms or -2
  end
  return remaining_ms
end

local function number_of(ctx, token)
  return is_reader(token) and 1 or read_fence(sibling(ctx, "fence"))
end

local function describe_objects(ctx, most)
  local readers, writer = sibling(ctx, "readers"), redis.call("GET", ctx.base)
  local holders = list_members(ctx, readers, most)
  local held = count_members(ctx, readers)
  if writer then
    held = held + 1
    table.insert(holders, 1, math.max(redis.call("PTTL", ctx.base), -1))
    table.insert(holders, 1, writer)
  end
  local number = read_fence(sibling(ctx, "fence"))
  return { { queue = ctx.queue, held = held, limit = 0, number = number, holders = holders } }
end
