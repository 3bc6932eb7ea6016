-- A record of a document: four parts separated by NUL. Length; terms; sort names; words in order. The items of a part are
-- separated by 0x01, the words by spaces, and the words of the fields by the word 0x01. The facets of a document are stored
-- apart: name=value, separated by 0x01.
local K1, B = 1.2, 0.75

-- The part of BM25 that depends on the document only (Robertson and Zaragoza, "The Probabilistic Relevance Framework",
-- 2009, 3.4), with the average length at the time of indexing.
local function saturated(frequency, length, average)
  return frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length / average))
end

-- Return the first three parts of a record, and the words in order.
local function parts_of(record)
  local parts, start = {}, 1
  for number = 1, 3 do
    local finish = string.find(record, "\0", start, true)
    parts[number] = string.sub(record, start, finish - 1)
    start = finish + 1
  end
  parts[4] = string.sub(record, start)
  return parts
end

local function items_of(part)
  local items = {}
  for item in string.gmatch(part or "", "[^\1]+") do
    items[#items + 1] = item
  end
  return items
end

-- Remove a document from a sort value or facet.
local function leave(base, command, name, id)
  if redis.call(command, base .. ":" .. name, id) == 1 and redis.call("EXISTS", base .. ":" .. name) == 0 then
    redis.call("SREM", base .. ":names", name)
  end
end

-- Remove what the index has of a document, except the sort values that the new one has too. Return its length; false if there
-- was none.
local function drop(base, id, kept_sorts)
  local record = redis.call("HGET", base .. ":docs", id)
  if not record then
    return false
  end
  local parts = parts_of(record)
  for _, term in ipairs(items_of(parts[2])) do
    local key = base .. ":w:" .. term
    if redis.call("ZREM", key, id) == 1 and redis.call("EXISTS", key) == 0 then
      redis.call("ZREM", base .. ":vocabulary", term)
    end
  end
  for _, name in ipairs(items_of(parts[3])) do
    if not kept_sorts[name] then
      leave(base, "ZREM", "s:" .. name, id)
    end
  end
  for _, facet in ipairs(items_of(redis.call("HGET", base .. ":facets", id) or "")) do
    leave(base, "SREM", "f:" .. facet, id)
  end
  local length = tonumber(parts[1]) or 0
  redis.call("HINCRBYFLOAT", base .. ":stats", "length", -length)
  redis.call("HDEL", base .. ":docs", id)
  redis.call("HDEL", base .. ":facets", id)
  return length
end
