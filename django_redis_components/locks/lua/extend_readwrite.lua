-- Extend the lease of a reader or of the writer to at least ttl_ms from now. It is never shortened, so a late repetition
-- does no harm.
-- Precondition: the token ends in ":r" for a reader, in ":w" for a writer.
-- KEYS[1] writer  string: the writer's token
-- KEYS[2] readers  zset: reader's token -> server time in ms at which its lease ends
-- KEYS[3] fence  string: the last fencing token of a writer
-- ARGV[1] token  text
-- ARGV[2] ttl_ms  milliseconds
-- DERIVED <writer>:handoffs, <writer>:holder:<token>
-- Returns 1: extended
-- Returns 0: this token has no lease
-- Cost: O(log readers)
local writer, readers, fence = KEYS[1], KEYS[2], KEYS[3]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
-- @include fence_ms
-- @include holder

if string.sub(token, -2) == ":r" then
  if tonumber(redis.call("ZSCORE", readers, token) or 0) <= now_ms then
    return 0
  end
  redis.call("ZADD", readers, "XX", "GT", now_ms + ttl_ms, token)
  redis.call("PEXPIRE", readers, ttl_ms, "GT")
  redis.call("PEXPIRE", holder_of(writer, token), ttl_ms, "GT")
  redis.call("ZREM", writer .. ":handoffs", token) -- adopted before its waiter has taken it
  return 1
end
if redis.call("GET", writer) ~= token then
  return 0
end
redis.call("PEXPIRE", writer, ttl_ms, "GT")
redis.call("PEXPIRE", holder_of(writer, token), ttl_ms, "GT")
redis.call("ZREM", writer .. ":handoffs", token)
keep_fence(fence, ttl_ms)
return 1
