-- Return members with a term whose prefix differs from a typed one by one edit after its first character: a character that
-- is missing, superfluous or different, or two neighbors that are exchanged.
-- Precondition: the prefix has 3 to 100 characters.
-- KEYS[1] lex  zset of members
-- ARGV[1] limit  maximum number of members of one variant
-- ARGV[2] max_lookups  maximum number of lookups
-- ARGV[3..] characters  the characters of the folded prefix
-- Returns members, those of earlier variants first
-- Cost: O(max_lookups) times O(log n), and O(members)
local lex = KEYS[1]
local limit, max_lookups = tonumber(ARGV[1]), tonumber(ARGV[2])
local POSITIONS = 2
local lookups_left = max_lookups

local function joined(first, last)
  return table.concat(ARGV, "", first + 2, last + 2)
end

local members, tried = {}, {}
local length = #ARGV - 2

local function read(position, from, prefix, count)
  lookups_left = lookups_left - 1
  return redis.call("ZRANGEBYLEX", lex, from, "(" .. position .. prefix .. "\255", "LIMIT", 0, count)
end

local function try(position, prefix)
  local placed = position .. prefix
  if lookups_left > 0 and not tried[placed] then
    tried[placed] = true
    for _, member in ipairs(read(position, "[" .. placed, prefix, limit)) do
      members[#members + 1] = member
    end
  end
end

-- Try the characters that really follow a common prefix, instead of a prefix typed, and before the rest of it.
local function try_next_characters(position, index)
  local before = joined(1, index - 1)
  local from = "[" .. position .. before
  while lookups_left > 0 do
    local member = read(position, from, before, 1)[1]
    if not member then
      return
    end
    local follows = string.match(member, "^[%z\1-\127\194-\244][\128-\191]*", #before + 2)
    if follows and follows ~= "\0" then
      try(position, before .. follows .. joined(index + 1, length))
      try(position, before .. follows .. joined(index, length))
    end
    from = "(" .. position .. before .. (follows or "") .. (follows == "\0" and "\1" or "\255")
  end
end

for position = 0, POSITIONS - 1 do
  try(position, joined(1, length))
  for index = length, 2, -1 do
    try(position, joined(1, index - 1) .. joined(index + 1, length))
    if index < length then
      try(position, joined(1, index - 1) .. joined(index + 1, index + 1) .. joined(index, index) .. joined(index + 2, length))
    end
  end
end
for index = length, 2, -1 do
  for position = 0, POSITIONS - 1 do
    try_next_characters(position, index)
  end
end
return members
