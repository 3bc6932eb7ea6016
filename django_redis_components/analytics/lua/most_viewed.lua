-- Add up the views of names over periods, and over earlier ones to compare with.
-- Precondition: all periods are of one kind of name.
-- KEYS[1..] periods  zset: name to views; the member "" is the sum of all. Those of the earlier range are last
-- ARGV[1] current  number of the periods that are not of the earlier range
-- ARGV[2] limit  number of names with the most views that are returned
-- ARGV[3] sample  number of names that are looked at in each period
-- ARGV[4..] names  names that are returned in any case
-- Returns for the sum "", for each name and for each of the most viewed: the name, its views, its earlier views
-- Cost: O(periods) times O(periods * sample + names)
local current, limit, sample = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local CHUNK = 1000

local names, is_known = { "" }, { [""] = true }
local function add_name(name)
  if not is_known[name] then
    is_known[name] = true
    names[#names + 1] = name
  end
end

-- Return the views of each of the names in the periods from the first to the last.
local function add_up(first, last)
  local views = {}
  for _, name in ipairs(names) do
    views[name] = 0
  end
  for index = first, last do
    for start = 1, #names, CHUNK do
      local stop = math.min(start + CHUNK - 1, #names)
      for offset, score in ipairs(redis.call("ZMSCORE", KEYS[index], unpack(names, start, stop))) do
        local name = names[start + offset - 1]
        views[name] = views[name] + tonumber(score or 0)
      end
    end
  end
  return views
end

for position = 4, #ARGV do
  add_name(ARGV[position])
end
local wanted = #names
if limit > 0 then
  for index = 1, current do
    for _, name in ipairs(redis.call("ZREVRANGE", KEYS[index], 0, sample)) do
      add_name(name)
    end
  end
end
local views = add_up(1, current)
local found = { unpack(names, wanted + 1) }
table.sort(found, function(one, other)
  return views[one] > views[other] or (views[one] == views[other] and one < other)
end)
names = { unpack(names, 1, wanted) }
for position = 1, math.min(limit, #found) do
  names[#names + 1] = found[position]
end
local earlier = add_up(current + 1, #KEYS)
local reply = {}
for _, name in ipairs(names) do
  reply[#reply + 1] = name
  reply[#reply + 1] = views[name]
  reply[#reply + 1] = earlier[name]
end
return reply
