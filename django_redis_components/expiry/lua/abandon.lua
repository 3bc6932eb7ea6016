-- Computes no more, without a value: one of those who wait takes it on.
-- Precondition: none.
-- KEYS[1] flight  hash: token, until_ms, waiters
-- ARGV[1] token  text
-- DERIVED <flight>:bell:<token>
-- Returns 1: given up
-- Returns 0: another computes by now, or nobody
-- Cost: O(waiters)
local flight, token = KEYS[1], ARGV[1]
-- @include ring

if redis.call("HGET", flight, "token") ~= token then
  return 0
end
ring(flight, token)
redis.call("DEL", flight)
return 1
