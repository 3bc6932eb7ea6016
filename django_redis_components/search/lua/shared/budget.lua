-- The work of a search, in members that are stored in a temporary sorted set: about 0.6 us each. A member that is only looked
-- up is LOOKED_UP of it.
local LOOKED_UP = 0.2

-- Return the work of a source for each document of a set that is intersected with it.
local function cost_of_source(source)
  local cost = 0
  for _, text in ipairs(source.texts) do
    cost = cost + LOOKED_UP * #text.keys
  end
  -- Each text of a group is a separate set; then their union, and what is left.
  return cost + (#source.texts > 1 and #source.texts + 2 or 0)
end

-- Return the work of a search for each document that it starts from: if these are a part of all documents, and if they are
-- those of the first source.
local function costs_per_document(sources, excluded, phrase_count, order_count, is_near)
  local cost = 1 + (order_count > 1 and 1.4 or 1) * order_count + (is_near and 2.4 or 0) + (phrase_count > 0 and 1 or 0)
  for _, source in ipairs(sources) do
    cost = cost + cost_of_source(source)
  end
  for _, exclusion in ipairs(excluded) do
    cost = cost + LOOKED_UP * (#exclusion - 1) + (exclusion[1] ~= "" and 1 or 0) -- a phrase has a separate set
  end
  local is_union = #sources[1].texts > 1
  return cost, cost - cost_of_source(sources[1]) + (is_union and 2 or LOOKED_UP)
end
