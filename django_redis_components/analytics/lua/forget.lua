-- Delete a user's sign-ins: the user's bitmap and audit, and the user's bit in each of those days.
-- Precondition: days are the days that are set in seen.
-- KEYS[1] base  prefix of the keys of the site
-- KEYS[2] user  string: bitmap of the user's days
-- KEYS[3] audit  list: the latest changes by hand
-- DERIVED base:ids base:si:d:<day> base:si:r:<offset>
-- ARGV[1] id  of the user
-- ARGV[2] is_mapped  1: the user may have a number; 0: the id is the number
-- ARGV[3] seen  the user's bitmap as the caller read it
-- ARGV[4..] days  for each day its name and its offset
-- Returns 1: deleted
-- Returns 0: the bitmap has changed since, or was deleted: read it again
-- Cost: O(n) in the days
local base, user, audit = KEYS[1], KEYS[2], KEYS[3]
local id, is_mapped, seen = ARGV[1], ARGV[2] == "1", ARGV[3]
local DAYS_FROM = 4
-- @include user_numbers

if redis.call("GET", user) ~= seen then
  return 0
end
local number = find_number(base, id, is_mapped)
for index = DAYS_FROM, #ARGV, 2 do
  local day = base .. ":si:d:" .. ARGV[index]
  if number and redis.call("GETBIT", day, number) == 1 then -- SETBIT would create a day that was pruned
    redis.call("SETBIT", day, number, 0)
  end
  redis.call("UNLINK", base .. ":si:r:" .. ARGV[index + 1]) -- only the rows of the user's days count the user
end
redis.call("UNLINK", user, audit)
return 1
