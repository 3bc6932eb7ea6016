-- Values of a facet that are returned.
local MAX_VALUES = 50
-- Documents whose facets are read at a time: up to 13 KB each.
local READ_DOCUMENTS = 50
-- The work of a document, of a facet that is looked for in it, and of a value that is counted; and how many bytes are one unit.
local DOCUMENT, NAME, VALUE, BYTES = 0.4, 0.1, 0.5, 2000

-- Return values and numbers as one list, alternating: the most frequent values, at most MAX_VALUES.
local function most_frequent(counts)
  local having, largest, distinct = {}, 0, 0
  for _, count in pairs(counts) do
    having[count] = (having[count] or 0) + 1
    largest, distinct = math.max(largest, count), distinct + 1
  end
  -- Values with fewer documents than `least` are not among them: so few are sorted, however many values there are.
  local least, more = largest, having[largest] or 0
  while least > 1 and more < MAX_VALUES do
    least = least - 1
    more = more + (having[least] or 0)
  end
  local values = {}
  for value, count in pairs(counts) do
    if count > least or (count == least and (least > 1 or distinct <= 1000 or #values < MAX_VALUES)) then
      values[#values + 1] = value
    end
  end
  table.sort(values, function(one, other)
    if counts[one] == counts[other] then
      return one < other
    end
    return counts[one] > counts[other]
  end)
  local listed = {}
  for number = 1, math.min(#values, MAX_VALUES) do
    listed[2 * number - 1], listed[2 * number] = values[number], counts[values[number]]
  end
  return listed
end

-- Count the values of one facet of a document; return their number. They are neighbors in the list, which is sorted.
local function count_values(listed, name, counts)
  local start, number = "\1" .. name .. "=", 0
  local index = string.find(listed, start, 1, true)
  while index do
    local finish = string.find(listed, "\1", index + #start, true)
    local value = string.sub(listed, index + #start, finish - 1)
    counts[value], number = (counts[value] or 0) + 1, number + 1
    index = string.sub(listed, finish, finish + #start - 1) == start and finish or nil
  end
  return number
end

-- Return the most frequent values of facets in a result, by name, and whether all its documents were counted: those that come
-- first are, while their work is within the budget. The facets of each are read once, however many values there are.
local function count_facets(facets, result, names, budget)
  local counts, budget_left = {}, budget
  for _, name in ipairs(names) do
    counts[name] = {}
  end
  local ids = #names > 0 and redis.call("ZRANGE", result, 0, -1, "REV") or {}
  local number, facets_read = 0, {}
  while number < #ids and budget_left > 0 do
    local index = number % READ_DOCUMENTS
    if index == 0 then
      facets_read = redis.call("HMGET", facets, unpack(ids, number + 1, math.min(number + READ_DOCUMENTS, #ids)))
    end
    local listed = "\1" .. (facets_read[index + 1] or "") .. "\1"
    budget_left = budget_left - DOCUMENT - #listed / BYTES
    for name, values in pairs(counts) do
      budget_left = budget_left - NAME - VALUE * count_values(listed, name, values)
    end
    number = number + 1
  end
  local frequent = {}
  for name, values in pairs(counts) do
    frequent[name] = most_frequent(values)
  end
  return frequent, number == #ids
end
