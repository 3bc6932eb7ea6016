-- Lets a reader in beside other readers, or a writer alone, unless somebody stands before it in line. Whoever
-- is in already is let in again with a full lease: a repetition after a lost reply, or the taking of a hand-off.
-- Precondition: the token ends in ":r" for a reader, in ":w" for a writer.
-- KEYS[1] writer  string: the writer's token
-- KEYS[2] readers  zset: reader's token -> server time in ms at which its lease ends
-- KEYS[3] fence  string: the last fencing token of a writer
-- KEYS[4] queue  zset: waiting token -> ticket
-- KEYS[5] alive  zset: waiting token -> server time in ms at which it counts as dead
-- ARGV[1] token  text
-- ARGV[2] ttl_ms  milliseconds of the lease
-- ARGV[3] patience_ms  milliseconds until the next question; 0: do not wait, leave the line
-- ARGV[4] handoff_ms  milliseconds of a lease that is handed to another
-- DERIVED <writer>:bell:<token>
-- Returns {n, 0}: n above 0, granted; to a writer under the fencing token n
-- Returns {0, n}: refused; ask again within n milliseconds (0 without patience)
-- Cost: O(log readers + log waiters), plus as much for each that is dropped or let in
local base, writer, readers, fence, queue, alive = KEYS[1], KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl_ms, patience_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local handoff_ms = tonumber(ARGV[4])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include readwrite

-- Milliseconds after which those who are in are gone, if none of them lets go or lengthens.
local function pause_ms(rank)
  local left_ms = redis.call("PTTL", writer)
  if left_ms == -2 and not reads(token) then
    local last = redis.call("ZRANGE", readers, -1, -1, "WITHSCORES")[2]
    left_ms = last and tonumber(last) - now_ms or -2
  end
  return left_ms < 0 and handoff_ms or math.min(left_ms + 1 + 2 * rank, handoff_ms)
end

local left_ms = left_of(token)
if left_ms then
  -- A hand-off gets the lease that was asked for; a longer one is an extended one, and stays.
  set_lease(token, left_ms > handoff_ms and math.max(left_ms, ttl_ms) or ttl_ms)
  if not reads(token) then
    keep_fence(fence, ttl_ms)
  end
  return { reads(token) and 1 or tonumber(redis.call("GET", fence) or next_fence(ttl_ms)), 0 }
end
local first = head()
if (not first or first == token) and is_open_to(token) then
  leave(token)
  local number = admit(token, ttl_ms)
  settle(handoff_ms)
  return { number, 0 }
end
if patience_ms == 0 then
  leave(token)
  settle(handoff_ms)
  return { 0, 0 }
end
local rank = join(token, patience_ms)
settle(handoff_ms)
return { 0, pause_ms(rank) }
