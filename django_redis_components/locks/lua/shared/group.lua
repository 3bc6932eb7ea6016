-- The queues before the names of a group. A waiter is queued before each name that it wants, under one ticket, and tickets
-- are in one order: the waiter with the lowest is first in all of its queues, so none can block each other for ever.
-- Expects the locals base, handoff_ms, now_us and now_ms. `base` is the hash of what each waiting token wants.
-- @include fence_ms

local function held(name)
  return base .. ":held:" .. name
end

local function fence_of(name)
  return base .. ":fence:" .. name
end

local function line(name)
  return base .. ":queue:" .. name
end

local function wants(token)
  local names = {}
  for name in string.gmatch(redis.call("HGET", base, token) or "", "[^\n]+") do
    names[#names + 1] = name
  end
  return names
end

local function queues_of(token)
  local queues = {}
  for at, name in ipairs(wants(token)) do
    queues[at] = line(name)
  end
  return queues
end

local function forget(token)
  redis.call("HDEL", base, token)
end

-- Makes a token the holder of all of these, under one number that is above the last of each.
local function grant_names(to, names, ttl_ms)
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

local function grant(token, ttl_ms)
  return grant_names(token, wants(token), ttl_ms)
end

-- Frees what a token holds of these, and returns how many that were.
local function free(token, names)
  local count = 0
  for _, name in ipairs(names) do
    if redis.call("GET", held(name)) == token then
      count = count + redis.call("DEL", held(name))
    end
  end
  return count
end

local function revoke(token)
  free(token, wants(token))
end

local function holds(token)
  for _, name in ipairs(wants(token)) do
    if redis.call("GET", held(name)) == token then
      return true
    end
  end
  return false
end

-- @include wait_queue

-- Whether a waiter is first in all of its queues, and all that it wants is free.
local function fits(token)
  for _, name in ipairs(wants(token)) do
    if redis.call("EXISTS", held(name)) == 1 or head(line(name)) ~= token then
      return false
    end
  end
  return true
end

-- Grants what is free of these names, and of those whose queues lost a waiter, to those first in their queues: a hand-off,
-- or to the caller its whole lease. Returns the caller's number if it was its turn.
local function serve(names, caller, ttl_ms)
  for _, name in ipairs(names) do
    vacated[#vacated + 1] = line(name)
  end
  local number
  local at = 1
  while at <= #vacated do -- it grows
    local first = head(vacated[at])
    if first and fits(first) then
      if first == caller then
        number = grant(first, ttl_ms)
        leave(first)
      else
        offer(first)
      end
    end
    at = at + 1
  end
  if number and offered then
    notify(shared_wakeup)
  end
  return number
end
