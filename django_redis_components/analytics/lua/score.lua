-- Change the score of a member in the periods of a ranking.
-- Precondition: none.
-- KEYS[1] base  set: periods that are stored; prefix of the keys of the ranking
-- DERIVED base:<period>
-- ARGV[1] member  text
-- ARGV[2] score  number
-- ARGV[3] mode  "set"; "best" or "worst": keep a score that is larger or smaller; "incr": add it
-- ARGV[4] ttl_ms  milliseconds for which a period is kept after each write
-- ARGV[5..] periods  "all" has no TTL
-- Returns the score in the first period, as text
-- Cost: O(periods) times O(log n)
local base = KEYS[1]
local member, score, mode, ttl_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local PERIODS_FROM = 5
-- @include stored_periods

for index = PERIODS_FROM, #ARGV do
  local key = base .. ":" .. ARGV[index]
  if mode == "incr" then
    redis.call("ZINCRBY", key, score, member)
  elseif mode == "best" then
    redis.call("ZADD", key, "GT", score, member)
  elseif mode == "worst" then
    redis.call("ZADD", key, "LT", score, member)
  else
    redis.call("ZADD", key, score, member)
  end
  if ARGV[index] ~= "all" then
    keep_period(base, base, ARGV[index], ttl_ms)
  end
end
return redis.call("ZSCORE", base .. ":" .. ARGV[PERIODS_FROM], member)
