-- Acquire all of these names, or none while another token holds one or is before this one in a queue. The holder's own
-- token is granted again: a repetition after a lost reply, whose lease is only extended, or the acceptance of a hand-off.
-- Precondition: the names are sorted, and none comes twice.
-- KEYS[1] group  hash: waiting token -> the names it wants, one per line
-- ARGV[1] token  text
-- ARGV[2] description  text that describes the caller
-- ARGV[3] ttl_ms  milliseconds of the lease
-- ARGV[4] wait  1: take a place in the queues when refused; 0: leave them
-- ARGV[5] handoff_ms  milliseconds of a lease that is handed to another
-- ARGV[6..] names  text
-- DERIVED <group>:asked, <group>:paused, <group>:handoffs, <group>:probes, <group>:wakeup, <group>:wakeup:<token>
-- DERIVED <group>:holder:<token>
-- DERIVED <group>:held:<name>, <group>:fence:<name>, <group>:queue:<name>, also of names that others want
-- Returns {n, 0}: n above 0, all are granted under the fencing token n
-- Returns {0, n}: refused; ask again within n milliseconds (0 without waiting)
-- Cost: O(names * log waiters), plus as much for each waiter that is probed, passed over or handed to
local group = KEYS[1]
local token, description, ttl_ms, wait = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == "1"
local handoff_ms = tonumber(ARGV[5])
local names = { unpack(ARGV, 6) }
local time = redis.call("TIME")
-- @include group

local ctx = group_context(group, handoff_ms, time[1] * 1000000 + time[2])

-- Return how many are held by this token, and how many by others.
local function count_held()
  local own, others = 0, 0
  for _, name in ipairs(names) do
    local holder = redis.call("GET", held_key(ctx, name))
    own, others = own + (holder == token and 1 or 0), others + (holder and holder ~= token and 1 or 0)
  end
  return own, others
end

local own, others = count_held()
-- No waiter and no hand-off: the common case.
if own == 0 and redis.call("EXISTS", group, group .. ":handoffs") == 0 then
  if others == 0 then
    redis.call("SET", group .. ":holder:" .. token, description, "PX", ttl_ms)
    return { grant_names(ctx, token, names, ttl_ms), 0 }
  end
  if not wait then
    return { 0, 0 }
  end
end
-- @include group_queue
-- @include holder

local waiters = open_group_queue(ctx)

-- Store the names that the caller wants. One that wants other names than before is queued behind their waiters.
local function store_wanted()
  local wanted = table.concat(names, "\n")
  if redis.call("HGET", group, token) ~= wanted then
    leave(waiters, token)
    redis.call("HSET", group, token, wanted)
  end
  redis.call("PEXPIRE", group, waiters.place_ms)
end

-- Return the milliseconds left of the longest lease, after which the caller asks again: a holder may die without a release.
local function longest_ms()
  local longest = -1
  for _, name in ipairs(names) do
    longest = math.max(longest, redis.call("PTTL", held_key(ctx, name)))
  end
  return longest
end

if own == #names then
  local is_handoff = accept_handoff(waiters, token)
  for _, name in ipairs(names) do
    if is_handoff then
      redis.call("PEXPIRE", held_key(ctx, name), ttl_ms)
    else
      redis.call("PEXPIRE", held_key(ctx, name), ttl_ms, "GT")
    end
    keep_fence(fence_key(ctx, name), ttl_ms)
  end
  describe(group, token, description, math.max(ttl_ms, redis.call("PTTL", held_key(ctx, names[1]))))
  local number = redis.call("GET", fence_key(ctx, names[1]))
  return { tonumber(number or grant_names(ctx, token, names, ttl_ms)), 0 }
end
release_names(ctx, token, names)
store_wanted()
join(waiters, token)
review(waiters)
local number = serve(waiters, names, token, ttl_ms)
if number then
  describe(group, token, description, ttl_ms)
  watch_handoffs(waiters)
  return { number, 0 }
end
if not wait then
  leave(waiters, token)
  serve(waiters, names)
  watch_handoffs(waiters)
  return { 0, 0 }
end
return { 0, pause_ms(waiters, token, longest_ms()) }
