-- The locks of a group's names.
-- @include fence_ms

-- Return the context of a call. `group` is the hash of what each waiting token wants.
local function group_context(group, handoff_ms, now_us)
  return { base = group, handoff_ms = handoff_ms, now_us = now_us, now_ms = math.floor(now_us / 1000) }
end

local function held_key(ctx, name)
  return ctx.base .. ":held:" .. name
end

local function fence_key(ctx, name)
  return ctx.base .. ":fence:" .. name
end

-- Grant all of these names to a token, under one number that is above the last of each.
local function grant_names(ctx, token, names, ttl_ms)
  local number = ctx.now_us
  for _, name in ipairs(names) do
    number = math.max(number, tonumber(redis.call("GET", fence_key(ctx, name)) or 0) + 1)
  end
  for _, name in ipairs(names) do
    redis.call("SET", held_key(ctx, name), token, "PX", ttl_ms)
    redis.call("SET", fence_key(ctx, name), number, "PX", ttl_ms + FENCE_MS)
  end
  return number
end

-- Release those of these names that a token holds, and return how many that were.
local function release_names(ctx, token, names)
  local count = 0
  for _, name in ipairs(names) do
    if redis.call("GET", held_key(ctx, name)) == token then
      count = count + redis.call("DEL", held_key(ctx, name))
    end
  end
  return count
end
