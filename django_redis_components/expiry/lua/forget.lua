-- Removes a value. What is being computed of older data is not kept either.
-- Precondition: none.
-- KEYS[1] value  hash: body, delta_ms, until_ms
-- KEYS[2] flight  hash: token, until_ms, waiters
-- DERIVED <flight>:bell:<token>
-- Returns 1: there was one
-- Returns 0: there was none
-- Cost: O(waiters)
local value, flight = KEYS[1], KEYS[2]
-- @include end_flight

local token = redis.call("HGET", flight, "token")
if token then
  end_flight(flight, token)
end
return redis.call("DEL", value)
