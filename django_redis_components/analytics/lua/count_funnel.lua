-- Count the users of the first set, of the first two, and so on. Each set is the union of some bitmaps. Nothing is stored.
-- Precondition: none.
-- KEYS[1..] bitmaps  string: those of the first set, then those of the second one, and so on
-- ARGV[1] max_bytes  bytes that all bitmaps may have together
-- ARGV[2..] sizes  number of bitmaps of each set
-- Returns for each set: users of it and of all before it
-- Returns -1: the bitmaps are larger than max_bytes
-- Cost: O(bytes) of the bitmaps; 48 KB take about 10 ms
local max_bytes = tonumber(ARGV[1])
local CHUNK = 1024
local band, bor, rshift = bit.band, bit.bor, bit.rshift

-- Return the number of set bits of a word of 32 bits.
local function count_bits(word)
  word = word - band(rshift(word, 1), 0x55555555)
  word = band(word, 0x33333333) + band(rshift(word, 2), 0x33333333)
  word = band(word + rshift(word, 4), 0x0F0F0F0F)
  word = word + rshift(word, 8)
  return band(word + rshift(word, 16), 0x3F)
end

local total, longest = 0, 0
for _, key in ipairs(KEYS) do
  local length = redis.call("STRLEN", key)
  total, longest = total + length, math.max(longest, length)
end
if total > max_bytes then
  return -1
end

-- Return the words from a place on of the union of bitmaps.
local function union_at(start, first, last)
  local union
  for index = first, last do
    local chunk = redis.call("GETRANGE", KEYS[index], start, start + CHUNK - 1)
    if chunk ~= "" then
      local count = math.ceil(#chunk / 4)
      local words = { struct.unpack(string.rep("I4", count), chunk .. string.rep("\0", count * 4 - #chunk)) }
      words[#words] = nil -- the place after the last word
      for position, word in ipairs(union or {}) do
        words[position] = bor(word, words[position] or 0)
      end
      union = words
    end
  end
  return union or {}
end

local users = {}
for set = 1, #ARGV - 1 do
  users[set] = 0
end
for start = 0, longest - 1, CHUNK do
  local common, first = nil, 1
  for set = 1, #users do
    local last = first + tonumber(ARGV[set + 1]) - 1
    local union = union_at(start, first, last)
    if not common then
      common = union
    end
    local found = 0
    for position, word in ipairs(common) do
      if word ~= 0 then
        word = band(word, union[position] or 0)
        common[position] = word
        found = found + count_bits(word)
      end
    end
    users[set] = users[set] + found
    first = last + 1
  end
end
return users
