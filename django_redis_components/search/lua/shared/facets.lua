-- Values of a facet that are returned.
local MAX_VALUES = 50

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

-- Return the most frequent values of facets in a result, by name. The facets of each of its documents are read once, which
-- costs the same however many values there are.
local function count_facets(facets, result, names)
  local counts = {}
  for _, name in ipairs(names) do
    counts[name] = {}
  end
  local ids = #names > 0 and redis.call("ZRANGE", result, 0, -1) or {}
  for start = 1, #ids, 1000 do
    local found = redis.call("HMGET", facets, unpack(ids, start, math.min(start + 999, #ids)))
    for _, listed in ipairs(found) do
      for name, value in string.gmatch(listed or "", "([^=\1]*)=([^\1]*)") do
        local values = counts[name]
        if values then
          values[value] = (values[value] or 0) + 1
        end
      end
    end
  end
  local frequent = {}
  for name, values in pairs(counts) do
    frequent[name] = most_frequent(values)
  end
  return frequent
end
