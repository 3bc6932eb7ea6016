-- @include postings

-- Return the documents in their order: by the sum of the orders with their weights. A document without a value has 0.
local function ordered_by(base, matches, orders, distances, new_key)
  if orders[1] == "relevance" and #orders == 2 then
    return matches
  end
  local is_single = #orders == 2
  local keys, weights = { matches }, { 0 }
  for number = 1, #orders, 2 do
    local name, weight = orders[number], orders[number + 1]
    local key = matches
    if name == "distance" then
      key = distances
    elseif name ~= "relevance" then
      key = new_key()
      local having = combine("ZINTERSTORE", key, { matches, base .. ":s:" .. name }, { 0, is_single and weight or 1 }, "SUM")
      if is_single and having == redis.call("ZCARD", matches) then
        return key
      end
      weight = is_single and 1 or weight
    end
    keys[#keys + 1], weights[#weights + 1] = key, weight
  end
  local ordered = new_key()
  combine("ZUNIONSTORE", ordered, keys, weights, "SUM")
  return ordered
end
