-- The part of BM25 that depends on the term only.
local function idf(documents, card)
  return math.log(1 + (documents - card + 0.5) / (card + 0.5))
end

-- Store the union or intersection of sorted sets or sets with their weights; return its size.
local function combine(command, into, keys, weights, aggregate)
  local args = { into, #keys }
  for _, key in ipairs(keys) do
    args[#args + 1] = key
  end
  args[#args + 1] = "WEIGHTS"
  for _, weight in ipairs(weights) do
    args[#args + 1] = weight
  end
  args[#args + 1] = "AGGREGATE"
  args[#args + 1] = aggregate
  return redis.call(command, unpack(args))
end

-- Return a text of a group: the keys of its terms, the rarest first, their weights, and how many documents have it at most.
-- Return nil if no document has it.
local function text_of(base, terms, documents)
  local postings = {}
  for number, term in ipairs(terms) do
    local key = base .. ":w:" .. term
    local card = redis.call("ZCARD", key)
    if card == 0 then
      return nil
    end
    postings[number] = { key = key, weight = idf(documents, card), card = card }
  end
  table.sort(postings, function(one, other)
    return one.card < other.card
  end)
  local keys, weights = {}, {}
  for number, posting in ipairs(postings) do
    keys[number], weights[number] = posting.key, posting.weight
  end
  return { keys = keys, weights = weights, card = postings[1].card }
end

-- Return a group, of lists of terms: the texts that documents have, and the sum of their numbers of documents.
local function group_of(base, lists, documents)
  local group = { texts = {}, card = 0, is_word = true }
  for _, terms in ipairs(lists) do
    local text = text_of(base, terms, documents)
    if text then
      group.texts[#group.texts + 1] = text
      group.card = group.card + text.card
    end
  end
  return group
end

-- Return the documents with a text, at most `limit` with the best scores of its rarest term: key and weight.
local function documents_of(text, limit, new_key)
  local keys = { unpack(text.keys) }
  if text.card > limit then
    keys[1] = new_key()
    redis.call("ZRANGESTORE", keys[1], text.keys[1], 0, limit - 1, "REV")
  end
  if #keys == 1 then
    return keys[1], text.weights[1]
  end
  local all = new_key()
  combine("ZINTERSTORE", all, keys, text.weights, "SUM")
  return all, 1
end

-- Return the documents with a text of a group, at most `limit`: key and weight.
local function documents_with(group, limit, new_key)
  if #group.texts == 1 then
    return documents_of(group.texts[1], limit, new_key)
  end
  local share = math.max(1, math.floor(limit / #group.texts))
  local keys, weights = {}, {}
  for number, text in ipairs(group.texts) do
    keys[number], weights[number] = documents_of(text, group.card > limit and share or limit, new_key)
  end
  local all = new_key()
  combine("ZUNIONSTORE", all, keys, weights, "MAX")
  return all, 1
end

-- Return the documents of a set that have a text of a group. What is looked at is the set, for each term.
local function narrowed(matches, group, new_key)
  local parts, ones = {}, {}
  for number, text in ipairs(group.texts) do
    parts[number], ones[number] = new_key(), 1
    combine("ZINTERSTORE", parts[number], { matches, unpack(text.keys) }, { 0, unpack(text.weights) }, "SUM")
  end
  local all, both = new_key(), new_key()
  combine("ZUNIONSTORE", all, parts, ones, "MAX")
  combine("ZINTERSTORE", both, { matches, all }, { 1, 1 }, "SUM")
  return both
end
