-- Remove a value, and reject one that is being computed from older data.
-- Precondition: none.
-- KEYS[1] value  hash: body, compute_ms, until_ms
-- KEYS[2] lease  hash: token, until_ms, waiters
-- DERIVED <lease>:wakeup:<token>
-- Returns 1: removed
-- Returns 0: no value
-- Cost: O(waiters)
local value, lease = KEYS[1], KEYS[2]
-- @include end_lease

local token = redis.call("HGET", lease, "token")
if token then
  end_lease(lease, token)
end
return redis.call("DEL", value)
