-- Record a user's sign-in on a day, in the bitmaps of the user and of the day.
-- Precondition: both offsets are checked against their limits; safe to repeat with the same token.
-- KEYS[1] user  string: bitmap of the user's days; no TTL, see SignIns.forget
-- KEYS[2] day  string: bitmap of the day's users; no TTL, see SignIns.prune
-- KEYS[3] claim  string: token of the first call
-- ARGV[1] id  offset in the bitmap of the day
-- ARGV[2] offset  of the day in the user's bitmap
-- ARGV[3] token  of this call
-- ARGV[4] claim_ms  milliseconds, how long the call may be repeated
-- Returns 1: the first of this user on this day
-- Returns 0: signed in before
-- Cost: O(1)
local user, day, claim = KEYS[1], KEYS[2], KEYS[3]
local id, offset, token, claim_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local before = redis.call("SETBIT", user, offset, 1)
redis.call("SETBIT", day, id, 1)
if before == 0 then
  redis.call("SET", claim, token, "PX", claim_ms)
  return 1
end
-- A call that is repeated after a lost reply has the same token and gets the same result.
return redis.call("GET", claim) == token and 1 or 0
