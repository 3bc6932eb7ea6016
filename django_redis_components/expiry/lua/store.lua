-- Store a computed value and wake the waiters.
-- Precondition: none. A token that has lost the lease (too late, or value forgotten) is rejected.
-- KEYS[1] value  hash: body, compute_ms, until_ms
-- KEYS[2] lease  hash: token, until_ms, waiters
-- ARGV[1] token  text
-- ARGV[2] body  bytes
-- ARGV[3] ttl_ms  milliseconds
-- ARGV[4] compute_ms  milliseconds, duration of the computation
-- DERIVED <lease>:wakeup:<token>
-- Returns 1: stored
-- Returns 0: rejected
-- Cost: O(waiters) and the size of the body
local value, lease = KEYS[1], KEYS[2]
local token, body, ttl_ms, compute_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
-- @include end_lease

if redis.call("HGET", lease, "token") ~= token then
  return 0
end
redis.call("HSET", value, "body", body, "compute_ms", compute_ms, "until_ms", now_ms + ttl_ms)
redis.call("PEXPIRE", value, ttl_ms)
end_lease(lease, token)
return 1
