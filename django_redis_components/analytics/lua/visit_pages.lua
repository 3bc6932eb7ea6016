-- Add visitors to pages, for a maximum of pages in a day; those of further pages are not counted.
-- Precondition: at most 1,000 ids of a page; safe to repeat.
-- KEYS[1] pages  set: pages of the day whose visitors are counted
-- DERIVED base:uvp:<page>:<label>
-- ARGV[1] base  prefix of the keys of the site
-- ARGV[2] max_pages  maximum pages of the day
-- ARGV[3] pages_ms  milliseconds, TTL of pages
-- ARGV[4] ttl_ms  milliseconds, TTL of visitors from this write on
-- ARGV[5] labels  number of labels
-- ARGV[6..] parts  the labels of the periods; then for each page its digest, the number of ids, and the ids
-- Returns 0 or above: pages that were counted
-- Cost: O(n) in the ids and the labels
local pages = KEYS[1]
local base, max_pages, pages_ms, ttl_ms, labels = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local FIRST = 6

local counted, at = 0, FIRST + labels
while at <= #ARGV do
  local page, last = ARGV[at], at + 1 + ARGV[at + 1]
  if redis.call("SISMEMBER", pages, page) == 1 or redis.call("SCARD", pages) < max_pages then
    redis.call("SADD", pages, page)
    for label = FIRST, FIRST + labels - 1 do
      local key = base .. ":uvp:" .. page .. ":" .. ARGV[label]
      redis.call("PFADD", key, unpack(ARGV, at + 2, last))
      redis.call("PEXPIRE", key, ttl_ms)
    end
    counted = counted + 1
  end
  at = last + 1
end
if counted > 0 then
  redis.call("PEXPIRE", pages, pages_ms)
end
return counted
