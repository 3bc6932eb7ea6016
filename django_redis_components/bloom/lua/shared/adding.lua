-- @include layers

-- Parts of the capacity after which the filter is looked at whether it is full.
local SHARE = 100

-- Allocate a layer at once: growing step by step would copy it again and again, and reserve up to 1 MB more than needed.
local function allocate(layer, state)
  redis.call("SETBIT", layer.key, layer.bits + HEADER_BITS - 1, 0)
  redis.call("SETRANGE", layer.key, 0, state)
end

-- Create a filter with one layer, and return it.
local function create_filter(base, meta, parameters, generation, layout, state)
  redis.call("HSET", meta, "parameters", parameters, "generation", generation, "layers", 1, "layout", layout)
  local filter = read_filter(base, meta)
  allocate(filter.layers[1], state)
  return filter
end

-- Return the number of items that set as many bits as a layer has: n = -m/k ln(1 - X/m).
local function estimate(layer)
  local set = redis.call("BITCOUNT", layer.key, HEADER_BITS / 8, -1)
  return -layer.bits / layer.hashes * math.log(1 - math.min(set, layer.bits - 1) / layer.bits)
end

-- Add a layer to a filter if the last one is full; return the filter.
local function grow(base, filter, is_rebuilding)
  local layer, following = filter.layers[filter.count], filter.layers[filter.count + 1]
  if not following or estimate(layer) < layer.capacity then
    return filter
  end
  redis.call("SETRANGE", layer.key, 0, CLOSED)
  allocate(following, is_rebuilding and REBUILDING or OPEN)
  local ttl_ms = redis.call("PTTL", filter.meta)
  if ttl_ms > 0 then -- a rebuild: if it dies, its layers expire with it
    redis.call("PEXPIRE", following.key, ttl_ms)
  end
  redis.call("HINCRBY", filter.meta, "layers", 1)
  return read_filter(base, filter.meta)
end

-- Add items to a filter, and layers when it is full; return whether each was new, by number.
-- look: after how many items the filter is looked at first; later ones follow after a part of its capacity.
-- seen: the first layers, where the items were added already.
local function add_items(base, filter, items, look, seen, is_rebuilding)
  local is_new, from = {}, 1
  while from <= items.count do
    local numbers, last = {}, math.min(from + look - 1, items.count)
    for number = from, last do
      numbers[number - from + 1] = number
    end
    local layer = filter.layers[filter.count]
    numbers = absent_from(filter, items, numbers, seen + 1, filter.count - 1)
    if filter.count > seen then
      numbers = apply_bits(layer, items, numbers, "SET")
    end
    for _, number in ipairs(numbers) do
      is_new[number] = true
    end
    look = look - (last - from + 1)
    if look < 1 then
      look = math.max(1, math.floor(layer.capacity / SHARE))
      filter = grow(base, filter, is_rebuilding)
    end
    from = last + 1
  end
  return is_new
end
