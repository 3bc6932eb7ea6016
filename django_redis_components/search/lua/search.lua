-- Find documents, store them in their order for a short time, and return one page and facets.
-- Precondition: at most 16 groups.
-- KEYS[1] base  prefix of the keys of the index
-- DERIVED base:docs base:gen base:vocabulary base:geo base:w:<term> base:s:<sort> base:f:<facet> base:v:<name> base:r:<result>
-- ARGV[1] result  name of the stored result: a hash of the query and its order
-- ARGV[2] reuse  1: use a stored result although documents have changed since
-- ARGV[3] ttl_ms  milliseconds for which a result is stored after its last use
-- ARGV[4] first  number of the first document, from 0
-- ARGV[5] count  number of documents to return
-- ARGV[6] max_candidates  documents that are ranked at most
-- ARGV[7] prefix  1: the last group is the beginning of a word
-- ARGV[8] longitude  degrees of the place to search near; empty for none
-- ARGV[9] latitude  degrees
-- ARGV[10] within_km  kilometers around the place
-- ARGV[11..] sections  counted lists: groups and excluded groups (each a counted list of terms), facets to filter by, phrases,
--   orders (name and weight, alternating), names of facets to count
-- Returns total, whether not all documents were ranked, ids and scores alternating, facets (name, values and counts)
-- Cost: O(max_candidates) times O(groups) times O(log n)
local base = KEYS[1]
local result, reuse, ttl_ms = base .. ":r:" .. ARGV[1], ARGV[2] == "1", ARGV[3]
local first, count, max_candidates = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local prefix = ARGV[7] == "1"
local longitude, latitude, within_km = ARGV[8], ARGV[9], tonumber(ARGV[10])
-- @include postings
-- @include places
local MAX_EXPANSIONS, MAX_PHRASE_CANDIDATES, MAX_VALUES = 20, 2000, 50
-- A set of so many times max_candidates documents is looked at whole if the order is not that of its scores.
local WHOLE_FACTOR = 2

local at = 11
local function next_list()
  local items = {}
  for number = 1, tonumber(ARGV[at]) do
    items[number] = ARGV[at + number]
  end
  at = at + 1 + #items
  return items
end

local function next_groups()
  local groups = {}
  local group_count = tonumber(ARGV[at])
  at = at + 1
  for number = 1, group_count do
    groups[number] = next_list()
  end
  return groups
end

local groups, excluded = next_groups(), next_groups()
local filters, phrases, orders, counted = next_list(), next_list(), next_list(), next_list()

local temporary = {}
local function new_key()
  temporary[#temporary + 1] = result .. ":" .. (#temporary + 1)
  return temporary[#temporary]
end

local documents = redis.call("HLEN", base .. ":docs")
local is_partial = false

-- Return the words that begin with the first term of a group, and its other terms, which are synonyms.
local function expand(group)
  local term = group[1]
  local found = redis.call("ZRANGEBYLEX", base .. ":vocabulary", "[" .. term, "(" .. term .. "\255", "LIMIT", 0, MAX_EXPANSIONS + 1)
  if #found > MAX_EXPANSIONS then
    is_partial = true
    found[#found] = nil
  end
  for number = 2, #group do
    found[#found + 1] = group[number]
  end
  return found
end

-- Return a sorted set of the documents with one of the terms, and its size. Their scores are those of BM25 if it is weighed.
local function postings(terms)
  local keys, weights, largest = {}, {}, 0
  for _, term in ipairs(terms) do
    local key = base .. ":w:" .. term
    local card = redis.call("ZCARD", key)
    if card > max_candidates and #terms > 1 then
      is_partial = true
      local top = new_key()
      redis.call("ZRANGESTORE", top, key, 0, max_candidates - 1, "REV")
      key = top
    end
    if card > 0 then
      keys[#keys + 1], weights[#weights + 1] = key, idf(documents, card)
      largest = math.max(largest, card)
    end
  end
  if #keys <= 1 then
    return { key = keys[1], weight = weights[1], card = largest }
  end
  local all = new_key()
  return { key = all, weight = 1, card = combine("ZUNIONSTORE", all, keys, weights, "MAX") }
end

-- Replace a set of too many documents by those near the place, that come first by the order, or that have the best scores.
local function limited(found)
  local name, weight = orders[1], tonumber(orders[2])
  local by_score = name == "relevance" and longitude == ""
  if found.card <= (by_score and max_candidates or WHOLE_FACTOR * max_candidates) then
    return found
  end
  local top, both = new_key(), new_key()
  if by_score then
    is_partial = true
    redis.call("ZRANGESTORE", top, found.key, 0, max_candidates - 1, "REV")
    return { key = top, weight = found.weight, card = max_candidates }
  elseif longitude ~= "" then
    local near = store_nearest(base .. ":geo", top, longitude, latitude, within_km, max_candidates)
    is_partial = is_partial or near >= max_candidates
  elseif weight < 0 then
    is_partial = true
    redis.call("ZRANGESTORE", top, base .. ":s:" .. name, 0, max_candidates - 1)
  else
    is_partial = true
    redis.call("ZRANGESTORE", top, base .. ":s:" .. name, 0, max_candidates - 1, "REV")
  end
  local card = combine("ZINTERSTORE", both, { top, found.key }, { 0, 1 }, "SUM")
  return { key = both, weight = found.weight, card = card }
end

-- Remove the documents with all of the terms.
local function exclude(terms)
  local others = base .. ":w:" .. terms[1]
  if #terms > 1 then
    local keys, weights = { result }, { 0 }
    for _, term in ipairs(terms) do
      keys[#keys + 1], weights[#weights + 1] = base .. ":w:" .. term, 0
    end
    others = new_key()
    combine("ZINTERSTORE", others, keys, weights, "SUM")
  end
  redis.call("ZDIFFSTORE", result, 2, result, others)
end

local function keep_phrases()
  if #phrases == 0 then
    return
  end
  local ids = redis.call("ZRANGE", result, 0, MAX_PHRASE_CANDIDATES, "REV")
  if #ids > MAX_PHRASE_CANDIDATES then
    is_partial = true
    redis.call("ZREMRANGEBYRANK", result, 0, -MAX_PHRASE_CANDIDATES - 1)
  end
  for _, id in ipairs(ids) do
    local words = string.match(redis.call("HGET", base .. ":docs", id) or "", "([^%z]*)$")
    for _, phrase in ipairs(phrases) do
      if not string.find(" " .. words .. " ", " " .. phrase .. " ", 1, true) then
        redis.call("ZREM", result, id)
        break
      end
    end
  end
end

-- Add up the orders with their weights. A document without a value has 0.
local function apply_orders(distances)
  local keys, weights = { result }, { 0 }
  for number = 1, #orders, 2 do
    local name, weight = orders[number], orders[number + 1]
    local key = result
    if name == "distance" then
      key = distances
    elseif name ~= "relevance" then
      key = new_key()
      combine("ZINTERSTORE", key, { result, base .. ":s:" .. name }, { 0, 1 }, "SUM")
    end
    keys[#keys + 1], weights[#weights + 1] = key, weight
  end
  local ordered = new_key()
  combine("ZUNIONSTORE", ordered, keys, weights, "SUM")
  redis.call("RENAME", ordered, result)
end

local function compute()
  redis.call("UNLINK", result)
  local found = {}
  for number, group in ipairs(groups) do
    local terms = group
    if prefix and number == #groups then
      terms = expand(group)
    end
    local posting = postings(terms)
    if posting.card == 0 then
      return
    end
    found[number] = posting
  end
  if #found == 0 then
    return
  end
  table.sort(found, function(one, other)
    return one.card < other.card
  end)
  found[1] = limited(found[1])
  local keys, weights = {}, {}
  for number, posting in ipairs(found) do
    keys[number], weights[number] = posting.key, posting.weight
  end
  for _, filter in ipairs(filters) do
    keys[#keys + 1], weights[#weights + 1] = base .. ":f:" .. filter, 0
  end
  combine("ZINTERSTORE", result, keys, weights, "SUM")
  for _, terms in ipairs(excluded) do
    exclude(terms)
  end
  local distances = new_key()
  if longitude ~= "" then
    keep_near(base .. ":geo", result, distances, longitude, latitude, within_km)
  end
  keep_phrases()
  if redis.call("EXISTS", result) == 1 and not (orders[1] == "relevance" and #orders == 2) then
    apply_orders(distances)
  end
end

local about = result .. ":about"
local generation = redis.call("GET", base .. ":gen") or "0"
local stored = redis.call("HMGET", about, "generation", "total", "partial")
local total
if stored[2] and (reuse or stored[1] == generation) then
  total, is_partial = tonumber(stored[2]), stored[3] == "1"
else
  compute()
  total = redis.call("ZCARD", result)
  redis.call("HSET", about, "generation", generation, "total", total, "partial", is_partial and "1" or "0")
end
redis.call("PEXPIRE", result, ttl_ms)
redis.call("PEXPIRE", about, ttl_ms)
local page = redis.call("ZRANGE", result, first, first + count - 1, "REV", "WITHSCORES")
local facets = {}
for number, name in ipairs(counted) do
  facets[number] = { name, count_values(base, name, result, MAX_VALUES) }
end
if #temporary > 0 then
  redis.call("UNLINK", unpack(temporary))
end
return { total, is_partial and 1 or 0, page, facets }
