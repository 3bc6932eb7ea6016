-- Return members whose entries have a term for each of several words, in any order.
-- Precondition: 1 to 8 different words.
-- KEYS[1] lex  zset of members
-- KEYS[2] entries  hash id -> record
-- ARGV[1] limit  maximum number of members
-- ARGV[2] max_scan  maximum number of members to look at
-- ARGV[3..] words  folded words, each matching by its prefix
-- Returns members of the rarest word, in their order
-- Cost: O(words) times O(log n), and O(max_scan)
local lex, entries = KEYS[1], KEYS[2]
local limit, max_scan = tonumber(ARGV[1]), tonumber(ARGV[2])
local POSITIONS = 3

local function range_of(position, word)
  return "[" .. position .. word, "(" .. position .. word .. "\255"
end

local function has_word(record, word)
  for position = 0, POSITIONS - 1 do
    if string.find(record, "\0" .. position .. word, 1, true) then
      return true
    end
  end
  return false
end

local rarest, fewest
for index = 3, #ARGV do
  local count = 0
  for position = 0, POSITIONS - 1 do
    count = count + redis.call("ZLEXCOUNT", lex, range_of(position, ARGV[index]))
  end
  if not fewest or count < fewest then
    rarest, fewest = index, count
  end
end

local function matches(record)
  for index = 3, #ARGV do
    if index ~= rarest and not has_word(record, ARGV[index]) then
      return false
    end
  end
  return true
end

local matching, seen, scanned = {}, {}, 0
for position = 0, POSITIONS - 1 do
  local from, to = range_of(position, ARGV[rarest])
  local members = redis.call("ZRANGEBYLEX", lex, from, to, "LIMIT", 0, max_scan - scanned)
  scanned = scanned + #members
  for _, member in ipairs(members) do
    local id = string.match(member, "%z([^%z]+)$")
    if id and not seen[id] and #matching < limit then
      seen[id] = true
      local record = redis.call("HGET", entries, id)
      if record and matches(record) then
        matching[#matching + 1] = member
      end
    end
  end
end
return matching
