-- Delete a user's sign-ins: the user's bitmap, and the user's bit in each of those days.
-- Precondition: days are the days that are set in seen.
-- KEYS[1] user  string: bitmap of the user's days
-- KEYS[2..] days  string: bitmap of the day's users, may be missing
-- ARGV[1] id  offset in the days
-- ARGV[2] seen  the user's bitmap as the caller read it
-- Returns 1: deleted
-- Returns 0: the bitmap has changed since, or was deleted: read it again
-- Cost: O(n) in the days
local user = KEYS[1]
local id, seen = ARGV[1], ARGV[2]
if redis.call("GET", user) ~= seen then
  return 0
end
for index = 2, #KEYS do
  if redis.call("GETBIT", KEYS[index], id) == 1 then -- SETBIT would create a day that was pruned
    redis.call("SETBIT", KEYS[index], id, 0)
  end
end
redis.call("UNLINK", user)
return 1
