-- @include documents
-- @include generations
-- A document that is written is a table: id, record, facets, length, longitude, latitude; and args with sort names and values from
-- number `sorts` to number `terms` - 1, then terms and frequencies, alternating.

-- Return the average length of the documents of a generation; nil if it has none.
local function average_length(base, total)
  local documents = redis.call("HLEN", base .. ":docs")
  if documents == 0 then
    return nil
  end
  return math.max(tonumber(total or redis.call("HGET", base .. ":stats", "length") or "0") / documents, 1)
end

-- Write sort values and the place; return the names of the sort values.
local function write_values(base, document, until_ms)
  local names = {}
  for index = document.sorts, document.terms - 1, 2 do
    local name = document.args[index]
    names[name] = true
    redis.call("ZADD", base .. ":s:" .. name, document.args[index + 1], document.id)
    if redis.call("SADD", base .. ":names", "s:" .. name) == 1 then
      expire_keys({ base .. ":s:" .. name }, until_ms)
    end
  end
  if document.longitude ~= "" then
    redis.call("GEOADD", base .. ":geo", document.longitude, document.latitude, document.id)
  else
    redis.call("ZREM", base .. ":geo", document.id)
  end
  return names
end

local function write_postings(base, document, average, force, until_ms)
  local id, length = document.id, document.length
  for index = document.terms, #document.args, 2 do
    local term, frequency = document.args[index], tonumber(document.args[index + 1])
    local key = base .. ":w:" .. term
    if redis.call("ZADD", key, saturated(frequency, length, average), id) == 1 and (force or redis.call("ZCARD", key) == 1) then
      redis.call("ZADD", base .. ":vocabulary", 0, term)
      expire_keys({ key }, until_ms)
    end
  end
end

local function write_facets(base, document, until_ms)
  if document.facets ~= "" then
    redis.call("HSET", base .. ":facets", document.id, document.facets)
  end
  for _, facet in ipairs(items_of(document.facets)) do
    redis.call("SADD", base .. ":f:" .. facet, document.id)
    if redis.call("SADD", base .. ":names", "f:" .. facet) == 1 then
      expire_keys({ base .. ":f:" .. facet }, until_ms)
    end
  end
end

local function is_same(base, document)
  return redis.call("HGET", base .. ":docs", document.id) == document.record
    and (redis.call("HGET", base .. ":facets", document.id) or "") == document.facets
end

-- Write a document to a generation; return whether its record differs, and the average length of documents.
-- force: write the postings also if the record is the same.
-- average: of the documents; nil for that of the generation.
-- until_ms: when the keys of the generation expire; false for one that does not.
local function write_document(base, document, force, average, until_ms)
  if not force and is_same(base, document) then
    write_values(base, document, until_ms)
    expire_keys(common_keys(base), until_ms)
    return false, average or average_length(base)
  end
  -- This comes first because a server without memory refuses it, and refuses nothing of a script that has written.
  local total = redis.call("HINCRBYFLOAT", base .. ":stats", "length", document.length)
  local dropped = drop(base, document.id, write_values(base, document, until_ms)) or 0
  redis.call("HSET", base .. ":docs", document.id, document.record)
  average = average or average_length(base, total - dropped)
  write_postings(base, document, average, force, until_ms)
  write_facets(base, document, until_ms)
  expire_keys(common_keys(base), until_ms)
  return true, average
end
