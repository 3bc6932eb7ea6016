-- Keeps what was computed, and wakes those who wait for it.
-- Precondition: none. A token that does not compute any more (too late, or forgotten meanwhile) is refused.
-- KEYS[1] value  hash: body, delta_ms, until_ms
-- KEYS[2] flight  hash: token, until_ms, waiters
-- ARGV[1] token  text
-- ARGV[2] body  bytes
-- ARGV[3] ttl_ms  milliseconds that the value lives
-- ARGV[4] delta_ms  milliseconds that computing took
-- DERIVED <flight>:bell:<token>
-- Returns 1: kept
-- Returns 0: refused
-- Cost: O(waiters) and the size of the body
local value, flight = KEYS[1], KEYS[2]
local token, body, ttl_ms, delta_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
-- @include end_flight

if redis.call("HGET", flight, "token") ~= token then
  return 0
end
redis.call("HSET", value, "body", body, "delta_ms", delta_ms, "until_ms", now_ms + ttl_ms)
redis.call("PEXPIRE", value, ttl_ms)
end_flight(flight, token)
return 1
