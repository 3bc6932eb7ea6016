-- Return what the index has of documents, for a comparison.
-- Precondition: none.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state, and of the generation root:<number>: docs facets geo stats vocabulary names w:<term> s:<sort> f:<facet>
-- ARGV[1] name_count  number of the names of sort values
-- ARGV[2..] names  of the sort values, then ids
-- Returns for each id: record, facets, whether a structure of the index lacks it, longitude, latitude, sort values; "" for what is missing
-- Cost: O(terms of the documents)
local root = KEYS[1]
local name_count = tonumber(ARGV[1])
-- @include generations
-- @include documents

local base = current_base(root)

local function lacks_name(name)
  return redis.call("SISMEMBER", base .. ":names", name) == 0
end

local function is_damaged(id, record, facets)
  local parts = parts_of(record)
  for _, term in ipairs(items_of(parts[2])) do
    if not redis.call("ZSCORE", base .. ":w:" .. term, id) or not redis.call("ZSCORE", base .. ":vocabulary", term) then
      return true
    end
  end
  for _, facet in ipairs(items_of(facets)) do
    if redis.call("SISMEMBER", base .. ":f:" .. facet, id) == 0 or lacks_name("f:" .. facet) then
      return true
    end
  end
  for _, name in ipairs(items_of(parts[3])) do
    if lacks_name("s:" .. name) then
      return true
    end
  end
  return redis.call("HEXISTS", base .. ":stats", "length") == 0
end

local documents = {}
for index = 2 + name_count, #ARGV do
  local id = ARGV[index]
  local record, facets = redis.call("HGET", base .. ":docs", id) or "", redis.call("HGET", base .. ":facets", id) or ""
  local damaged = record ~= "" and is_damaged(id, record, facets)
  local place = redis.call("GEOPOS", base .. ":geo", id)[1]
  local document = { record, facets, damaged and 1 or 0, place and place[1] or "", place and place[2] or "" }
  for number = 1, name_count do
    document[#document + 1] = redis.call("ZSCORE", base .. ":s:" .. ARGV[1 + number], id) or ""
  end
  documents[#documents + 1] = document
end
return documents
