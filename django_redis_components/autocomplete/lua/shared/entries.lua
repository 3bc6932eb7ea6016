-- An entry is an id and its record: text NUL weight, then 0x01 and a folded term for each term, sorted.
-- Its members:  term NUL text NUL weight NUL id                           in the zset "lex"
--               prefix NUL (999999999 - weight) NUL member of "lex"    in the zset "top"
--               term 0x01 (999999999 - weight) NUL member of "lex"        in the zset "top"
-- The members of "top" exist for entries with a weight only. A prefix has 0 to 2 characters; its member contains the first
-- term with that prefix. The last form is for terms of up to 2 characters: exact matches precede heavier entries.
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
  local head, terms = string.match(record, "^(.-)\1(.*)$")
  local weight = tonumber(string.match(head or "", "%z(%d+)$"))
  if not weight then
    return {}, {} -- corrupt: written by another client
  end
  local rank = string.format("%09d", 999999999 - weight)
  local lex, top, seen = {}, {}, {}
  for term in string.gmatch(terms, "[^\1]+") do
    local member = term .. "\0" .. head .. "\0" .. id
    lex[#lex + 1] = member
    for _, prefix in ipairs(weight > 0 and prefixes_of(term) or {}) do
      if not seen[prefix] then
        seen[prefix] = true
        top[#top + 1] = prefix .. "\0" .. rank .. "\0" .. member
      end
      if prefix == term then
        top[#top + 1] = term .. "\1" .. rank .. "\0" .. member
      end
    end
  end
  return lex, top
end

-- An entry has at most 32 terms, so at most 65 prefixes and 32 exact members: unpack accepts that many.
local function add_all(zset, members)
  local scored = {}
  for at, member in ipairs(members) do
    scored[at * 2 - 1], scored[at * 2] = 0, member
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
  if redis.call("HGET", entries, id) == record then
    return false
  end
  drop(lex, top, entries, id)
  local new_lex, new_top = members_of(id, record)
  add_all(lex, new_lex)
  add_all(top, new_top)
  redis.call("HSET", entries, id, record)
  return true
end
