-- @include layers

-- Items that are added between two looks at the capacity: at most, and as a part of it.
local GROUP, SHARE = 100, 50

-- Allocate the bits of a layer at once: growing step by step would copy them again and again.
local function allocate(layer)
  redis.call("SETBIT", layer.key, layer.bits - 1, 0)
end

-- Add items to a filter, and a layer when the last one is full; return whether each was new, by number.
local function add_items(base, filter, items)
  local is_new, from = {}, 1
  while from <= #items do
    local group = math.max(1, math.min(GROUP, math.floor(filter.layers[filter.count].capacity / SHARE)))
    local numbers, last = {}, math.min(from + group - 1, #items)
    for number = from, last do
      numbers[#numbers + 1] = number
    end
    numbers = absent_from(filter, items, numbers, filter.count - 1)
    local layer = filter.layers[filter.count]
    numbers = apply_bits(layer, items, numbers, "SET")
    for _, number in ipairs(numbers) do
      is_new[number] = true
    end
    if #numbers > 0 then
      local count = redis.call("HINCRBY", filter.meta, layer.items, #numbers)
      if count >= layer.capacity and filter.layers[filter.count + 1] then
        allocate(filter.layers[filter.count + 1])
        redis.call("HINCRBY", filter.meta, "layers", 1)
        filter = read_filter(base, filter.meta)
      end
    end
    from = last + 1
  end
  return is_new
end
