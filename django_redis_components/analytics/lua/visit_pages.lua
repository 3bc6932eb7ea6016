-- Add visitors to pages, for a maximum of pages in a day; those of further pages are counted together, as another page.
-- Precondition: at most 1,000 ids of a page; safe to repeat.
-- KEYS[1] pages  set: pages of the day whose visitors are counted
-- DERIVED base:uvp:<page>:<label>
-- ARGV[1] base  prefix of the keys of the site
-- ARGV[2] max_pages  maximum pages of the day; 0 counts none, not even the other page
-- ARGV[3] pages_ms  milliseconds, TTL of pages
-- ARGV[4] ttl_ms  milliseconds, TTL of visitors from this write on
-- ARGV[5] other  digest of the page that stands for further ones
-- ARGV[6] labels  number of labels
-- ARGV[7..] parts  the labels of the periods; then for each page its digest, the number of ids, and the ids
-- Returns 0 or above: pages that were counted by themselves
-- Cost: O(n) in the ids and the labels
local pages = KEYS[1]
local base, max_pages, pages_ms, ttl_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local other, labels = ARGV[5], tonumber(ARGV[6])
local FIRST = 7

local counted, index = 0, FIRST + labels
while index <= #ARGV and max_pages > 0 do
  local page, last = ARGV[index], index + 1 + ARGV[index + 1]
  if redis.call("SISMEMBER", pages, page) == 1 or redis.call("SCARD", pages) < max_pages then
    redis.call("SADD", pages, page)
    counted = counted + 1
  else
    page = other
  end
  for label = FIRST, FIRST + labels - 1 do
    local key = base .. ":uvp:" .. page .. ":" .. ARGV[label]
    redis.call("PFADD", key, unpack(ARGV, index + 2, last))
    redis.call("PEXPIRE", key, ttl_ms)
  end
  index = last + 1
end
if counted > 0 then
  redis.call("PEXPIRE", pages, pages_ms)
end
return counted
