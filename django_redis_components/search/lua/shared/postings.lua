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

-- Return the most frequent values of a facet with their numbers in a result, alternating.
local function count_values(base, name, result, limit)
  local values = {}
  for _, value in ipairs(redis.call("ZRANGE", base .. ":v:" .. name, 0, limit - 1, "REV")) do
    local number = redis.call("ZINTERCARD", 2, result, base .. ":f:" .. name .. "=" .. value)
    if number > 0 then
      values[#values + 1] = value
      values[#values + 1] = number
    end
  end
  return values
end
