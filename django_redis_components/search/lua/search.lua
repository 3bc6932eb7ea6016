-- Find documents, store them in their order for a short time, and return one page and facets.
-- Precondition: at most 32 terms.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:gen root:results root:r:<result>, and of the generation root:<number>: docs facets vocabulary geo w:<term> s:<sort> f:<facet>
-- ARGV[1] result  name of the stored result: a hash of the query and its order
-- ARGV[2] reuse  1: use a stored result although documents have changed since
-- ARGV[3] ttl_ms  milliseconds for which a result is stored after its last use
-- ARGV[4] first  number of the first document, from 0
-- ARGV[5] count  number of documents to return
-- ARGV[6] max_candidates  documents that are ranked at most if their words are in more
-- ARGV[7] max_shown  documents of a result that are stored
-- ARGV[8] max_results  results of the index that are stored
-- ARGV[9] prefix  texts of the last group, the first ones, whose last term is the beginning of a term
-- ARGV[10] longitude  degrees of the place to search near; empty for none
-- ARGV[11] latitude  degrees
-- ARGV[12] within_km  kilometers around the place
-- ARGV[13..] sections  counted lists: groups (each a counted list of texts, each a counted list of terms), what is excluded (each
--   a counted list of a phrase, or "", and terms), facets to filter by, phrases, orders (name and weight, alternating), names of
--   facets to count
-- Returns total, whether not all documents were ranked, ids and scores alternating, facets (name, values and counts)
-- Cost: O(WORK times max_candidates) times O(log max_candidates); see shared/budget.lua
local root = KEYS[1]
local result, reuse, ttl_ms = ARGV[1], ARGV[2] == "1", tonumber(ARGV[3])
local first, count, max_candidates = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local max_shown, max_results, prefix = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local longitude, latitude, within_km = ARGV[10], ARGV[11], tonumber(ARGV[12])
-- @include generations
-- @include postings
-- @include places
-- @include orders
-- @include texts
-- @include budget
-- @include facets
-- @include results
local MAX_EXPANSIONS = 20
-- Multiples of max_candidates: documents that are looked at whole; the work of the search, see shared/budget.lua; and the
-- part of it that facets have at least.
local WHOLE, WORK, FACETS = 2, 8, 2

local index = 13
local function next_list()
  local items = {}
  for number = 1, tonumber(ARGV[index]) do
    items[number] = ARGV[index + number]
  end
  index = index + 1 + #items
  return items
end

local function next_lists(next_item)
  local lists = {}
  local list_count = tonumber(ARGV[index])
  index = index + 1
  for number = 1, list_count do
    lists[number] = next_item()
  end
  return lists
end

local groups = next_lists(function()
  return next_lists(next_list)
end)
local excluded = next_lists(next_list)
local filters, phrases, orders, counted = next_list(), next_list(), next_list(), next_list()

local base = current_base(root)
local list = root .. ":r:" .. result
local is_partial = false
local budget = WORK * max_candidates
local temporary = {}
local function new_key()
  temporary[#temporary + 1] = list .. ":" .. (#temporary + 1)
  return temporary[#temporary]
end

-- Return the texts of a group: in place of a text that is open, one for each term that begins with its last one.
local function expanded(lists)
  local texts, seen, words_left = {}, {}, MAX_EXPANSIONS
  local function add(terms)
    local name = table.concat(terms, " ")
    if not seen[name] then
      texts[#texts + 1], seen[name] = terms, true
    end
  end
  for number, terms in ipairs(lists) do
    if number > prefix then
      add(terms)
    else
      local start = terms[#terms]
      local words = redis.call("ZRANGEBYLEX", base .. ":vocabulary", "[" .. start, "(" .. start .. "\255", "LIMIT", 0, words_left + 1)
      is_partial = is_partial or #words > words_left
      for index = 1, math.min(#words, words_left) do
        local text = { unpack(terms) }
        text[#text] = words[index]
        add(text)
      end
      words_left = math.max(0, words_left - #words)
    end
  end
  return texts
end

-- Return what all documents must have: the groups, and the filters as groups.
local function read_sources()
  local sources = {}
  local documents = redis.call("HLEN", base .. ":docs")
  for number, lists in ipairs(groups) do
    local group = group_of(base, number == #groups and expanded(lists) or lists, documents)
    sources[number] = group
  end
  for _, filter in ipairs(filters) do
    local key = base .. ":f:" .. filter
    local card = redis.call("SCARD", key)
    sources[#sources + 1] = { texts = { { keys = { key }, weights = { 0 }, card = card } }, card = card, is_word = false }
  end
  table.sort(sources, function(one, other)
    return one.card < other.card
  end)
  return sources
end

-- Return a set of documents to start from, its weight, and the source that it is: the smallest source whole, or a part.
local function start_from(sources)
  local part_cost, whole_cost = costs_per_document(sources, excluded, #phrases, #orders / 2, longitude ~= "")
  local limit = math.max(1, math.floor(math.min(WHOLE * max_candidates, budget / whole_cost)))
  local part = math.max(1, math.floor(math.min(max_candidates, budget / part_cost)))
  local name = orders[1]
  local is_best_first = name == "relevance" and longitude == ""
  local is_single = #sources == 1 and #excluded == 0 and #phrases == 0
  if sources[1].card <= (is_best_first and is_single and part or limit) then
    budget = budget - whole_cost * sources[1].card
    local key, weight = documents_with(sources[1], limit, new_key)
    return key, weight, sources[1]
  end
  budget = budget - part_cost * part
  local top = new_key()
  if longitude ~= "" then
    local nearest = math.ceil(part / 2)
    local is_cut = store_nearest(base .. ":geo", top, new_key(), longitude, latitude, within_km, nearest)
    is_partial = is_partial or is_cut
    return top, 0, nil
  end
  is_partial = true
  if name ~= "relevance" then
    if tonumber(orders[2]) > 0 then
      redis.call("ZRANGESTORE", top, base .. ":s:" .. name, 0, part - 1, "REV")
    else
      redis.call("ZRANGESTORE", top, base .. ":s:" .. name, 0, part - 1)
    end
    return top, 0, nil
  end
  for _, source in ipairs(sources) do
    if source.is_word then
      local key, weight = documents_with(source, part, new_key)
      return key, weight, source
    end
  end
end

-- Return the documents that have all sources, with their relevance.
local function intersected(sources)
  local start, weight, used = start_from(sources)
  local keys, weights = { start }, { weight }
  for _, source in ipairs(sources) do
    if source ~= used and #source.texts == 1 then
      for number, key in ipairs(source.texts[1].keys) do
        keys[#keys + 1], weights[#weights + 1] = key, source.texts[1].weights[number]
      end
    end
  end
  local matches = new_key()
  combine("ZINTERSTORE", matches, keys, weights, "SUM")
  for _, source in ipairs(sources) do
    if source ~= used and #source.texts > 1 then
      matches = narrowed(matches, source, new_key)
    end
  end
  return matches
end

-- Remove the documents with words that are excluded; phrases come last.
local function exclude_words(matches)
  local keys = {}
  for _, exclusion in ipairs(excluded) do
    if exclusion[1] == "" then
      keys[#keys + 1] = base .. ":w:" .. exclusion[2]
    end
  end
  if #keys > 0 then
    redis.call("ZDIFFSTORE", matches, #keys + 1, matches, unpack(keys))
  end
end

-- Return the documents of a result in their order, all of them.
local function compute()
  local sources = read_sources()
  if sources[1].card == 0 then
    return new_key()
  end
  local matches, distances = intersected(sources), new_key()
  exclude_words(matches)
  if longitude ~= "" then
    keep_near(base .. ":geo", matches, distances, longitude, latitude, within_km)
  end
  local ordered = ordered_by(base, matches, orders, distances, new_key)
  local is_whole = check_phrases(base, ordered, phrases, excluded, new_key)
  is_partial = is_partial or not is_whole
  return ordered
end

local about = list .. ":about"
local generation = redis.call("GET", root .. ":gen") or "0"
local fields = { "generation", "total", "partial" }
for _, name in ipairs(counted) do
  fields[#fields + 1] = "f:" .. name
end
local stored = redis.call("HMGET", about, unpack(fields))
local is_stored = stored[2] and (reuse or stored[1] == generation)
for number = 1, #counted do
  is_stored = is_stored and stored[3 + number]
end
if not is_stored then
  local ordered = compute()
  store_result(list, ordered, max_shown)
  local frequent, were_whole = count_facets(base .. ":facets", ordered, counted, math.max(budget, FACETS * max_candidates))
  is_partial = is_partial or not were_whole
  local values = { "generation", generation, "total", redis.call("ZCARD", ordered), "partial", is_partial and "1" or "0" }
  for name, listed in pairs(frequent) do
    values[#values + 1], values[#values + 2] = "f:" .. name, table.concat(listed, "\1")
  end
  redis.call("HSET", about, unpack(values))
  stored = redis.call("HMGET", about, unpack(fields))
end
note_use(root, result, ttl_ms, max_results)
local page = redis.call("LRANGE", list, 2 * first, 2 * (first + count) - 1)
local facets = {}
for number, name in ipairs(counted) do
  facets[number] = { name, stored[3 + number] }
end
if #temporary > 0 then
  redis.call("UNLINK", unpack(temporary))
end
return { tonumber(stored[2]), tonumber(stored[3]), page, facets }
