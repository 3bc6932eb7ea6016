-- Remove a filter and its layers.
local function remove(filter)
  for number = 1, filter.count do
    redis.call("UNLINK", filter.layers[number].key)
  end
  redis.call("UNLINK", filter.meta)
end
