-- An entry is an id and its record: a head, then NUL, position and term for each folded term, sorted. The head is the text,
-- followed by 0x01 and the weight if the entry has one. A position is a digit: 0 start of the text, 1 start of a word,
-- 2 inside a run of Han characters.
-- Its members:  position term NUL head NUL id                             in the zset "lex"
--               position prefix mark rank NUL member of "lex"            in the zset "top"
-- The members of "top" exist for entries with a weight only. A prefix has 0 to 2 characters; its member contains the first
-- term with that prefix. The mark is NUL for a prefix that is the whole term and 0x01 otherwise, the rank is
-- 999999999 - weight: a range of one prefix has exact matches first, then the heaviest entries.
local TOP_CHARACTERS = 2

local function prefixes_of(term)
  local prefixes, text = { "" }, ""
  for character in string.gmatch(term, "[%z\1-\127\194-\244][\128-\191]*") do
    if #prefixes > TOP_CHARACTERS then
      break
    end
    text = text .. character
    prefixes[#prefixes + 1] = text
  end
  return prefixes
end

local function members_of(id, record)
  local head, terms = string.match(record, "^(.-)%z(.*)$")
  local weight = head and tonumber(string.match(head, "\1(%d+)$") or "0")
  local rank = weight and weight > 0 and string.format("%09d", 999999999 - weight)
  local lex, top, seen = {}, {}, {}
  for placed in string.gmatch(terms or "", "[^%z]+") do -- none in a corrupt record, which another program has written
    local position, term = string.sub(placed, 1, 1), string.sub(placed, 2)
    local member = placed .. "\0" .. head .. "\0" .. id
    lex[#lex + 1] = member
    for _, prefix in ipairs(rank and prefixes_of(term) or {}) do
      if not seen[prefix] then
        seen[prefix] = true
        top[#top + 1] = position .. prefix .. (prefix == term and "\0" or "\1") .. rank .. "\0" .. member
      end
    end
  end
  return lex, top
end

-- An entry has at most 32 terms, so at most 65 prefixes: unpack accepts that many.
local function add_all(zset, members)
  local scored = {}
  for index, member in ipairs(members) do
    scored[index * 2 - 1], scored[index * 2] = 0, member
  end
  if #scored > 0 then
    redis.call("ZADD", zset, unpack(scored))
  end
end

local function drop(lex, top, entries, id)
  local record = redis.call("HGET", entries, id)
  if not record then
    return false
  end
  local old_lex, old_top = members_of(id, record)
  if #old_lex > 0 then
    redis.call("ZREM", lex, unpack(old_lex))
  end
  if #old_top > 0 then
    redis.call("ZREM", top, unpack(old_top))
  end
  redis.call("HDEL", entries, id)
  return true
end

local function put(lex, top, entries, id, record)
  local is_same = redis.call("HGET", entries, id) == record
  if not is_same then
    drop(lex, top, entries, id)
  end
  -- Also those of an unchanged entry: a set may have lost them.
  local new_lex, new_top = members_of(id, record)
  add_all(lex, new_lex)
  add_all(top, new_top)
  redis.call("HSET", entries, id, record)
  return not is_same
end
