-- Return the recent choices that are in the index and match.
-- Precondition: at most 1,000 recent choices.
-- KEYS[1] entries  hash id -> record
-- KEYS[2..] lists  the list of recent choices, id NUL text; none if the ids are passed
-- ARGV[1] prefix  folded; empty matches all
-- ARGV[2] limit  maximum number of choices
-- ARGV[3..] ids  the ids, latest first, if there is no list
-- Returns id and record, alternating
-- Cost: O(recent choices)
local entries = KEYS[1]
local prefix, limit = ARGV[1], tonumber(ARGV[2])
local MAX_LENGTH, POSITIONS = 1000, 3

local function matches(record)
  for position = 0, POSITIONS - 1 do
    if string.find(record, "\0" .. position .. prefix, 1, true) then
      return true
    end
  end
  return false
end

local ids = {}
if #KEYS > 1 then
  for _, element in ipairs(redis.call("LRANGE", KEYS[2], 0, MAX_LENGTH - 1)) do
    ids[#ids + 1] = string.match(element, "^([^%z]+)%z")
  end
else
  for index = 3, #ARGV do
    ids[#ids + 1] = ARGV[index]
  end
end
local rows = {}
for _, id in ipairs(ids) do
  local record = #rows < 2 * limit and redis.call("HGET", entries, id)
  if record and matches(record) then
    rows[#rows + 1] = id
    rows[#rows + 1] = record
  end
end
return rows
