-- Remove a user's sign-in of a day from the bitmaps of the user and of the day.
-- Precondition: the day is in range; safe to repeat with the same token.
-- KEYS[1] base  prefix of the keys of the site
-- KEYS[2] user  string: bitmap of the user's days
-- KEYS[3] day  string: bitmap of the day's users, may be missing
-- KEYS[4] last_call  string: token of the call that changed the day last
-- KEYS[5] audit  list: the latest changes by hand; no TTL, see SignIns.forget
-- DERIVED base:ids base:si:r:<offset> base:si:r:last
-- ARGV[1] id  of the user
-- ARGV[2] is_mapped  1: the user may have a number; 0: the id is the number
-- ARGV[3] offset  of the day in the user's bitmap
-- ARGV[4] token  of this call
-- ARGV[5] repeat_ms  milliseconds, how long the call may be repeated
-- ARGV[6] entry  of the audit
-- Returns 1: removed
-- Returns 0: there was no sign-in
-- Cost: O(1)
local base, user, day, last_call, audit = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, is_mapped, offset = ARGV[1], ARGV[2] == "1", ARGV[3]
local token, repeat_ms, entry = ARGV[4], ARGV[5], ARGV[6]
-- @include user_numbers
-- @include retention_rows
-- @include audit

if redis.call("GETBIT", user, offset) == 0 then -- SETBIT would create the key of an unknown user
  return redis.call("GET", last_call) == token and 1 or 0
end
redis.call("SETBIT", user, offset, 0)
local number = find_number(base, id, is_mapped)
if number and redis.call("GETBIT", day, number) == 1 then -- the day may be pruned
  redis.call("SETBIT", day, number, 0)
end
redis.call("SET", last_call, token, "PX", repeat_ms)
delete_rows(base, offset)
record_entry(audit, entry)
return 1
