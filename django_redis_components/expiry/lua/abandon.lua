-- Release the lease without a value: one of the waiters computes next.
-- Precondition: none.
-- KEYS[1] lease  hash: token, until_ms, waiters
-- ARGV[1] token  text
-- ARGV[2] cancel_ms  milliseconds, how long a later FETCH of this token is rejected; 0: none is pending
-- DERIVED <lease>:wakeup:<token>, <lease>:cancelled:<token>
-- Returns 1: released
-- Returns 0: this token has no lease
-- Cost: O(waiters)
local lease, token, cancel_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
-- @include end_lease

local is_holder = redis.call("HGET", lease, "token") == token
if is_holder then
  end_lease(lease, token)
end
if cancel_ms > 0 then
  redis.call("SET", lease .. ":cancelled:" .. token, "", "PX", cancel_ms)
end
return is_holder and 1 or 0
