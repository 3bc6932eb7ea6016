-- Ends a flight without a value: one of the waiters computes next.
-- Precondition: none.
-- KEYS[1] flight  hash: token, until_ms, waiters
-- ARGV[1] token  text
-- ARGV[2] void_ms  milliseconds in which a FETCH of this token that arrives later is refused; 0: none is on its way
-- DERIVED <flight>:bell:<token>, <flight>:void:<token>
-- Returns 1: ended
-- Returns 0: another token computes now, or none
-- Cost: O(waiters)
local flight, token, void_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
-- @include end_flight

local is_ours = redis.call("HGET", flight, "token") == token
if is_ours then
  end_flight(flight, token)
end
if void_ms > 0 then
  redis.call("SET", flight .. ":void:" .. token, "", "PX", void_ms)
end
return is_ours and 1 or 0
