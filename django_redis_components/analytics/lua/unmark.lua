-- Remove a user from bitmaps.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the site
-- DERIVED base:ids base:<bitmap>
-- ARGV[1] id  of the user
-- ARGV[2] is_mapped  1: the user has a number; 0: the id is the number
-- ARGV[3..] bitmaps  names
-- Returns the number of bitmaps that the user was in
-- Cost: O(bitmaps)
local base = KEYS[1]
local id, is_mapped = ARGV[1], ARGV[2] == "1"
-- @include user_numbers

local number = find_number(base, id, is_mapped)
local unmarked = 0
if number then
  for index = 3, #ARGV do
    local key = base .. ":" .. ARGV[index]
    if redis.call("GETBIT", key, number) == 1 then
      redis.call("SETBIT", key, number, 0)
      unmarked = unmarked + 1
    end
  end
end
return unmarked
