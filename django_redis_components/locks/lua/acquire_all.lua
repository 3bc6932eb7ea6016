-- Takes all of these names or none: none of them while another token holds one, or stands before this one in
-- the line of one. The holder's own token is granted again with a full lease: a repetition after a lost
-- reply, or the taking of a hand-off.
-- Precondition: the names are sorted, and none comes twice.
-- KEYS[1] group  hash: waiting token -> the names it wants, a line each
-- ARGV[1] token  text
-- ARGV[2] ttl_ms  milliseconds of the lease
-- ARGV[3] patience_ms  milliseconds until the next question; 0: do not wait, leave the lines
-- ARGV[4] handoff_ms  milliseconds of a lease that is handed to another
-- ARGV[5..] names  text
-- DERIVED <group>:alive, <group>:bell:<token>
-- DERIVED <group>:held:<name>, <group>:fence:<name>, <group>:line:<name>, also of names that others want
-- Returns {n, 0}: n above 0, all are granted under the fencing token n
-- Returns {0, n}: refused; ask again within n milliseconds (0 without patience)
-- Cost: O(names * log waiters), plus as much for each waiter that is dropped or handed to
local base, group = KEYS[1], KEYS[1]
local token, ttl_ms, patience_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local handoff_ms = tonumber(ARGV[4])
local names = { unpack(ARGV, 5) }
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include group

local function holds_all()
  for _, name in ipairs(names) do
    if redis.call("GET", held(name)) ~= token then
      return false
    end
  end
  return true
end

-- One ticket for all lines, above the last of each: it follows the clock, and grows also while that is set back.
local function join()
  local wanted = table.concat(names, "\n")
  if redis.call("HGET", group, token) ~= wanted then
    leave(token)
    local ticket = now_us
    for _, name in ipairs(names) do
      local last = redis.call("ZRANGE", line(name), -1, -1, "WITHSCORES")[2]
      ticket = math.max(ticket, tonumber(last or 0) + 1)
    end
    for _, name in ipairs(names) do
      redis.call("ZADD", line(name), ticket, token)
    end
    redis.call("HSET", group, token, wanted)
  end
  redis.call("ZADD", alive, now_ms + patience_ms, token)
  redis.call("PEXPIRE", group, patience_ms)
  redis.call("PEXPIRE", alive, patience_ms)
  for _, name in ipairs(names) do
    redis.call("PEXPIRE", line(name), patience_ms)
  end
end

-- A holder may die without a release. Nobody can go in before the last of them is gone; whoever stands
-- further back asks later, not all at once.
local function pause_ms()
  local longest, rank = 0, 0
  for _, name in ipairs(names) do
    local left_ms = redis.call("PTTL", held(name))
    longest = math.max(longest, left_ms == -1 and handoff_ms or left_ms)
    rank = math.max(rank, redis.call("ZRANK", line(name), token) or 0)
  end
  return longest > 0 and math.min(longest + 1 + 2 * rank, handoff_ms) or handoff_ms
end

if holds_all() then
  for _, name in ipairs(names) do
    -- A hand-off gets the lease that was asked for; a longer one is an extended one, and stays.
    local left_ms = redis.call("PTTL", held(name))
    redis.call("PEXPIRE", held(name), left_ms > handoff_ms and math.max(left_ms, ttl_ms) or ttl_ms)
    keep_fence(fence_of(name), ttl_ms)
  end
  local number = redis.call("GET", fence_of(names[1]))
  return { tonumber(number or grant(token, names, ttl_ms)), 0 }
end
if may(token, names) then
  leave(token)
  return { grant(token, names, ttl_ms), 0 }
end
let_go(token, names)
if patience_ms == 0 then
  leave(token)
  settle(names, handoff_ms)
  return { 0, 0 }
end
join()
settle(names, handoff_ms)
return { 0, pause_ms() }
