-- Mark a user in the bitmaps of an event.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the site
-- DERIVED base:ev base:ev:<event> base:ids base:<bitmap>
-- ARGV[1] event  name
-- ARGV[2] id  of the user
-- ARGV[3] is_mapped  1: the user gets the next free number; 0: the id is the number
-- ARGV[4] max_number  largest number
-- ARGV[5] ttl_ms  milliseconds for which a bitmap is kept after each write
-- ARGV[6..] bitmaps  names, that of the shortest period first
-- Returns 1: the first time in the shortest period
-- Returns 0: not the first time
-- Returns -1: all numbers are used
-- Cost: O(bitmaps), and O(max_number) when a bitmap grows
local base = KEYS[1]
local event, id, is_mapped, max_number, ttl_ms = ARGV[1], ARGV[2], ARGV[3] == "1", tonumber(ARGV[4]), ARGV[5]
local BITMAPS_FROM = 6
-- @include user_numbers
-- @include stored_periods

local number = number_of(base, id, is_mapped, max_number)
if not number then
  return -1
end
redis.call("ZADD", base .. ":ev", 0, event)
local is_first = 0
for index = BITMAPS_FROM, #ARGV do
  local old = redis.call("SETBIT", base .. ":" .. ARGV[index], number, 1)
  keep_period(base, base .. ":ev:" .. event, ARGV[index], ttl_ms)
  if index == BITMAPS_FROM then
    is_first = 1 - old
  end
end
return is_first
