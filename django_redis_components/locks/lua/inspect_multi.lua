-- Read the holder and the waiters of each of these names. Writes nothing: waiters that were silent too long are not
-- listed.
-- Precondition: none.
-- KEYS[1] group  hash: waiting token -> the names it wants, one per line
-- ARGV[1] most  number of waiters to look at, of each name; those behind count as living
-- ARGV[2] liveness_ms  milliseconds after which a silent waiter does not count
-- ARGV[3..] names  text
-- DERIVED <group>:asked, <group>:holder:<token>
-- DERIVED <group>:held:<name>, <group>:fence:<name>, <group>:queue:<name>
-- Returns for each name {holder, left_ms, fence, age_ms, waiting, description, token, ...}, as `inspect` does
-- Cost: O(names * most * log waiters)
local group = KEYS[1]
local most, liveness_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local names = { unpack(ARGV, 3) }
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include holder

local function lives(token)
  return tonumber(redis.call("ZSCORE", group .. ":asked", token) or 0) >= now_ms - liveness_ms
    and redis.call("HEXISTS", group, token) == 1
end

local function state_of(name)
  local held, queue = group .. ":held:" .. name, group .. ":queue:" .. name
  local holder = redis.call("GET", held) or ""
  local last = tonumber(redis.call("GET", group .. ":fence:" .. name) or 0)
  local left_ms, age_ms, description = 0, 0, ""
  if holder ~= "" then
    left_ms = redis.call("PTTL", held)
    age_ms = last > 0 and math.max(0, now_ms - math.floor(last / 1000)) or 0
    description = redis.call("GET", holder_of(group, holder)) or ""
  end
  local state = { holder, left_ms, last, age_ms, 0, description }
  local first = redis.call("ZRANGE", queue, 0, most - 1)
  for _, token in ipairs(first) do
    if lives(token) then
      state[#state + 1] = token
    end
  end
  state[5] = #state - 6 + redis.call("ZCARD", queue) - #first
  return state
end

local states = {}
for at, name in ipairs(names) do
  states[at] = state_of(name)
end
return states
