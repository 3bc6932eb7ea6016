-- Record a user's sign-in on a day, in the bitmaps of the user and of the day.
-- Precondition: the day is in range, and so is an id that is not mapped; safe to repeat with the same token.
-- KEYS[1] base  prefix of the keys of the site
-- KEYS[2] user  string: bitmap of the user's days; no TTL, see SignIns.forget
-- KEYS[3] day  string: bitmap of the day's users; no TTL, see SignIns.prune
-- KEYS[4] last_call  string: token of the first call
-- KEYS[5] audit  list: the latest changes by hand; no TTL, see SignIns.forget
-- DERIVED base:ids base:si:r:<offset> base:si:r:last
-- ARGV[1] id  of the user
-- ARGV[2] is_mapped  1: the user gets the next free number; 0: the id is the number
-- ARGV[3] max_number  largest number
-- ARGV[4] offset  of the day in the user's bitmap
-- ARGV[5] token  of this call
-- ARGV[6] repeat_ms  milliseconds, how long the call may be repeated
-- ARGV[7] entry  of the audit, if the sign-in is the first of the day; empty for none
-- Returns 1: the first of this user on this day
-- Returns 0: signed in before
-- Returns -1: all numbers are used
-- Cost: O(1); O(max_number) when the bitmap of the day grows
local base, user, day, last_call, audit = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, is_mapped, max_number, offset = ARGV[1], ARGV[2] == "1", tonumber(ARGV[3]), ARGV[4]
local token, repeat_ms, entry = ARGV[5], ARGV[6], ARGV[7]
-- @include user_numbers
-- @include retention_rows
-- @include audit

local number = number_of(base, id, is_mapped, max_number)
if not number then
  return -1
end
local before = redis.call("SETBIT", user, offset, 1)
redis.call("SETBIT", day, number, 1)
if before == 1 then
  -- A call that is repeated after a lost reply has the same token and gets the same result.
  return redis.call("GET", last_call) == token and 1 or 0
end
redis.call("SET", last_call, token, "PX", repeat_ms)
delete_rows(base, offset)
if entry ~= "" then
  record_entry(audit, entry)
end
return 1
