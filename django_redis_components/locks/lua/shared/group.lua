-- The lines before the names of a group. Whoever waits stands in the line of each name it wants, under one
-- ticket, so whoever came first is first in all of its lines: none can block each other for ever.
-- Expects the locals base, now_us and now_ms. `base` is the hash of what each waiting token wants.
local alive = base .. ":alive"
-- @include fence_ms
-- @include bell

local function held(name)
  return base .. ":held:" .. name
end

local function fence_of(name)
  return base .. ":fence:" .. name
end

local function line(name)
  return base .. ":line:" .. name
end

local function wishes(token)
  local names = {}
  for name in string.gmatch(redis.call("HGET", base, token) or "", "[^\n]+") do
    names[#names + 1] = name
  end
  return names
end

local function leave(token)
  for _, name in ipairs(wishes(token)) do
    redis.call("ZREM", line(name), token)
  end
  redis.call("ZREM", alive, token)
  return redis.call("HDEL", base, token) == 1
end

-- The first in the line of a name who still lives. The dead before it leave all their lines.
local function head(name)
  while true do
    local first = redis.call("ZRANGE", line(name), 0, 0)[1]
    if not first then
      return nil
    end
    local until_ms = tonumber(redis.call("ZSCORE", alive, first) or 0)
    if until_ms >= now_ms and redis.call("HEXISTS", base, first) == 1 then
      return first
    end
    leave(first)
    redis.call("ZREM", line(name), first)
  end
end

-- Whether a token may have all of these: nobody else holds one, and nobody stands before it.
local function may(token, names)
  for _, name in ipairs(names) do
    local holder = redis.call("GET", held(name))
    local first = head(name)
    if (holder and holder ~= token) or (first and first ~= token) then
      return false
    end
  end
  return true
end

-- Makes a token the holder of all of these, under one number that is above the last of each.
local function grant(to, names, ttl_ms)
  local number = now_us
  for _, name in ipairs(names) do
    number = math.max(number, tonumber(redis.call("GET", fence_of(name)) or 0) + 1)
  end
  for _, name in ipairs(names) do
    redis.call("SET", held(name), to, "PX", ttl_ms)
    redis.call("SET", fence_of(name), number, "PX", ttl_ms + FENCE_MS)
  end
  return number
end

-- Lets go of what a token holds of these, and returns how many that were.
local function let_go(token, names)
  local count = 0
  for _, name in ipairs(names) do
    if redis.call("GET", held(name)) == token then
      count = count + redis.call("DEL", held(name))
    end
  end
  return count
end

-- Hands what is free to whoever is first in the line of it and may have all that it wants.
local function settle(names, handoff_ms)
  for _, name in ipairs(names) do
    local first = head(name)
    if first and redis.call("EXISTS", held(name)) == 0 then
      local wanted = wishes(first)
      if may(first, wanted) then
        leave(first)
        grant(first, wanted, handoff_ms)
        ring(first, handoff_ms)
      end
    end
  end
end
