-- Takes all of these names or none: none of them while another token holds one, or is before this one in the queue of
-- one. The holder's own token is granted again: a repetition after a lost reply, whose lease is only lengthened, or the
-- taking of a hand-off.
-- Precondition: the names are sorted, and none comes twice.
-- KEYS[1] group  hash: waiting token -> the names it wants, a line each
-- ARGV[1] token  text
-- ARGV[2] ttl_ms  milliseconds of the lease
-- ARGV[3] wait  1: take a place in the queues when refused; 0: leave them
-- ARGV[4] handoff_ms  milliseconds of a lease that is handed to another
-- ARGV[5..] names  text
-- DERIVED <group>:asked, <group>:paused, <group>:handoffs, <group>:probes, <group>:wakeup, <group>:wakeup:<token>
-- DERIVED <group>:held:<name>, <group>:fence:<name>, <group>:queue:<name>, also of names that others want
-- Returns {n, 0}: n above 0, all are granted under the fencing token n
-- Returns {0, n}: refused; ask again within n milliseconds (0 without waiting)
-- Cost: O(names * log waiters), plus as much for each waiter that is probed, passed over or handed to
local base, group = KEYS[1], KEYS[1]
local token, ttl_ms, wait = ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1"
local handoff_ms = tonumber(ARGV[4])
local names = { unpack(ARGV, 5) }
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include group

-- How many are held by this token, and how many by others.
local function count_held()
  local own, others = 0, 0
  for _, name in ipairs(names) do
    local holder = redis.call("GET", held(name))
    own, others = own + (holder == token and 1 or 0), others + (holder and holder ~= token and 1 or 0)
  end
  return own, others
end

-- A waiter's wish is stored once; one that wants other names now begins at the end of their queues.
local function store_wish()
  local wanted = table.concat(names, "\n")
  if redis.call("HGET", group, token) ~= wanted then
    leave(token)
    redis.call("HSET", group, token, wanted)
  end
  redis.call("PEXPIRE", group, place_ms)
end

-- A holder may die without a release. A waiter cannot go in before the last of them is gone.
local function longest_ms()
  local longest = -1
  for _, name in ipairs(names) do
    longest = math.max(longest, redis.call("PTTL", held(name)))
  end
  return longest
end

local own, others = count_held()
if own == #names then
  local taken = take(token)
  for _, name in ipairs(names) do
    if taken then
      redis.call("PEXPIRE", held(name), ttl_ms)
    else
      redis.call("PEXPIRE", held(name), ttl_ms, "GT")
    end
    keep_fence(fence_of(name), ttl_ms)
  end
  local number = redis.call("GET", fence_of(names[1]))
  return { tonumber(number or grant_names(token, names, ttl_ms)), 0 }
end
-- No waiter and no hand-off: the common case.
if own == 0 and redis.call("EXISTS", group, handoffs) == 0 then
  if others == 0 then
    return { grant_names(token, names, ttl_ms), 0 }
  end
  if not wait then
    return { 0, 0 }
  end
end
free(token, names)
store_wish()
join(token)
review()
local number = serve(names, token, ttl_ms)
if number then
  return { number, 0 }
end
if not wait then
  leave(token)
  serve(names)
  if offered then
    notify(shared_wakeup)
  end
  return { 0, 0 }
end
return { 0, pause_ms(token, longest_ms()) }
