-- Count one view of a page in several periods, or of __other__ once a period has its maximum of pages.
-- Precondition: page is truncated; sent once, because a repetition counts twice.
-- KEYS[1..] periods  zset: page to views; the member "" is the sum of all pages
-- ARGV[1] page  text
-- ARGV[2..] limits  for each period: milliseconds, TTL from this write on; maximum pages
-- Returns above 0: views of the page in the first period
-- Returns 0: counted under __other__ in the first period
-- Cost: O(log n) in the pages of each period
-- @include count_members
local page = ARGV[1]
local first = 0
for number, period in ipairs(KEYS) do
  local views = count_members(period, ARGV[2 * number], tonumber(ARGV[2 * number + 1]), { page, 1 })
  if number == 1 then
    first = views
  end
end
return first
