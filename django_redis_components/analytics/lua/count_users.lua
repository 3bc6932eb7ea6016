-- Count the users of several days.
-- Precondition: none.
-- KEYS[1..] days  string: bitmap of users
-- Returns for each day: the number of set bits
-- Cost: O(bits) of the days; 1,000,000 users take about 10 microseconds a day
local users = {}
for index, day in ipairs(KEYS) do
  users[index] = redis.call("BITCOUNT", day)
end
return users
