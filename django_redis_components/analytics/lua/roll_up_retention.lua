-- Complete a row of the retention triangle: how many users of a day signed in on it and on later days.
-- Precondition: the days are over; a sign-in that is added later deletes the row.
-- KEYS[1] base  prefix of the keys of the site
-- DERIVED base:si:d:<day> base:si:r:<offset> base:si:r:last base:scratch:1
-- ARGV[1] offset  of the first day
-- ARGV[2] ttl_ms  milliseconds for which the row is kept
-- ARGV[3..] days  names of the first day and of those after it
-- Returns how many numbers were added to the row
-- Cost: O(days) times O(bits of a day)
local base = KEYS[1]
local offset, ttl_ms = ARGV[1], tonumber(ARGV[2])
local DAYS_FROM = 3
local SCRATCH_MS = 60000 -- if the script is killed

local row, last, scratch = base .. ":si:r:" .. offset, base .. ":si:r:last", base .. ":scratch:1"
local first, days = base .. ":si:d:" .. ARGV[DAYS_FROM], #ARGV - DAYS_FROM + 1
local counts = {}
for count in string.gmatch(redis.call("GET", row) or "", "%d+") do
  counts[#counts + 1] = count
end
local counted = #counts
for number = counted + 1, days do
  redis.call("BITOP", "AND", scratch, first, base .. ":si:d:" .. ARGV[DAYS_FROM + number - 1])
  redis.call("PEXPIRE", scratch, SCRATCH_MS)
  counts[number] = redis.call("BITCOUNT", scratch)
end
if counted >= days then
  return 0
end
redis.call("UNLINK", scratch)
redis.call("SET", row, table.concat(counts, ","), "PX", ttl_ms)
local reached = math.max(tonumber(redis.call("GET", last) or 0), offset + days - 1)
redis.call("SET", last, reached, "PX", math.max(ttl_ms, redis.call("PTTL", last)))
return days - counted
