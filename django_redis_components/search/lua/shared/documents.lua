-- A record of a document: five parts separated by NUL. Length; terms; sort names; facets, name=value; words in order. The
-- items of a part are separated by 0x01, the words by spaces.
local K1, B = 1.2, 0.75

-- The part of BM25 that depends on the document only (Robertson and Zaragoza, "The Probabilistic Relevance Framework",
-- 2009, 3.4), with the average length at the time of indexing.
local function saturated(frequency, length, average)
  return frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length / average))
end

local function parts_of(record)
  local parts = {}
  for part in string.gmatch(record .. "\0", "([^%z]*)%z") do
    parts[#parts + 1] = part
  end
  return parts
end

local function items_of(part)
  local items = {}
  for item in string.gmatch(part or "", "[^\1]+") do
    items[#items + 1] = item
  end
  return items
end

local function sorts_of(record)
  return items_of(parts_of(record)[3])
end

local function facets_of(record)
  return items_of(parts_of(record)[4])
end

-- Remove what the index has of a document, except the sort values that the new one has too.
local function drop(base, id, kept)
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
  local keeps = {}
  for _, name in ipairs(kept.sorts) do
    keeps[name] = true
  end
  for _, name in ipairs(items_of(parts[3])) do
    if not keeps[name] then
      redis.call("ZREM", base .. ":s:" .. name, id)
    end
  end
  for _, facet in ipairs(items_of(parts[4])) do
    redis.call("SREM", base .. ":f:" .. facet, id)
    local name, value = string.match(facet, "^([^=]*)=(.*)$")
    if tonumber(redis.call("ZINCRBY", base .. ":v:" .. name, -1, value)) <= 0 then
      redis.call("ZREM", base .. ":v:" .. name, value)
    end
  end
  redis.call("HINCRBYFLOAT", base .. ":stats", "length", -(tonumber(parts[1]) or 0))
  redis.call("HDEL", base .. ":docs", id)
  return true
end
