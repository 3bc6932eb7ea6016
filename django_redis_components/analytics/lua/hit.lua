-- Count one view of a page on a day, or of __other__ once the day has max_pages pages.
-- Precondition: page is truncated; sent once, because a repetition counts twice.
-- KEYS[1] day  zset: page to views; the member "" is the sum of all pages
-- ARGV[1] page  text
-- ARGV[2] ttl_ms  milliseconds, TTL from this write on
-- ARGV[3] max_pages  maximum pages of a day
-- Returns above 0: views of the page on that day
-- Returns 0: counted under __other__
-- Cost: O(log n) in the pages of the day
local day = KEYS[1]
local page = ARGV[1]
local ttl_ms = ARGV[2]
local max_pages = tonumber(ARGV[3])

local name = page
if not redis.call("ZSCORE", day, page) and redis.call("ZCARD", day) > max_pages then -- one member is the sum
  name = "__other__"
end
local views = redis.call("ZINCRBY", day, 1, name)
redis.call("ZINCRBY", day, 1, "")
redis.call("PEXPIRE", day, ttl_ms)
if name ~= page then
  return 0
end
return tonumber(views)
