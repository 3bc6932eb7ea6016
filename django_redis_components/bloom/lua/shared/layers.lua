-- A filter is a hash and a string of bits for each of its layers, base:<generation>:<number>. The hash has: parameters;
-- generation; layers (their number); layout (bits, hashes and capacity of each layer that it may get, "m:k:n m:k:n …");
-- c<number>, the items of a layer.

-- Operands of one BITFIELD; more would overflow Lua's stack.
local MAX_OPERANDS = 6000

-- Return the layers of a filter that exist and the next one; nil if there is no filter.
local function read_filter(base, meta)
  local fields = redis.call("HMGET", meta, "parameters", "generation", "layers", "layout")
  if not fields[1] then
    return nil
  end
  local filter = { parameters = fields[1], generation = fields[2], count = tonumber(fields[3]), layers = {}, meta = meta }
  for bits, hashes, capacity in string.gmatch(fields[4], "(%d+):(%d+):(%d+)") do
    local number = #filter.layers
    filter.layers[number + 1] = {
      key = base .. ":" .. fields[2] .. ":" .. number,
      items = "c" .. number,
      bits = tonumber(bits),
      hashes = tonumber(hashes),
      capacity = tonumber(capacity),
    }
    if number == filter.count then
      break
    end
  end
  return filter
end

-- Return the two hashes of each item, of 12 bytes.
local function read_items(packed)
  local items = {}
  for at = 1, #packed, 12 do
    local first, second = struct.unpack(">I6I6", packed, at)
    items[#items + 1] = { first, second - second % 2 + 1 }
  end
  return items
end

-- Append the operands of an item: enhanced double hashing (Dillinger and Manolios, "Bloom Filters in Probabilistic
-- Verification", 2004). The sums stay below 2^53.
local function append_bits(operands, layer, item, operation)
  local bits = layer.bits
  local first, second = item[1] % bits, item[2] % bits
  for number = 0, layer.hashes - 1 do
    local at = (first + number * second + (number * number * number - number) / 6) % bits
    operands[#operands + 1] = operation
    operands[#operands + 1] = "u1"
    operands[#operands + 1] = at
    if operation == "SET" then
      operands[#operands + 1] = 1
    end
  end
end

-- Get or set the bits of items in a layer, given by their numbers; return the numbers of those whose bits were not all set.
local function apply_bits(layer, items, numbers, operation)
  local missing, from = {}, 1
  local step = math.floor(MAX_OPERANDS / (4 * layer.hashes))
  while from <= #numbers do
    local operands, last = {}, math.min(from + step - 1, #numbers)
    for at = from, last do
      append_bits(operands, layer, items[numbers[at]], operation)
    end
    local old = redis.call("BITFIELD", layer.key, unpack(operands))
    for at = from, last do
      local first = (at - from) * layer.hashes
      for hash = 1, layer.hashes do
        if old[first + hash] == 0 then
          missing[#missing + 1] = numbers[at]
          break
        end
      end
    end
    from = last + 1
  end
  return missing
end

-- Return the numbers of the items that are in none of the first layers of a filter, the newest looked at first.
local function absent_from(filter, items, numbers, layers)
  for number = layers, 1, -1 do
    if #numbers == 0 then
      break
    end
    numbers = apply_bits(filter.layers[number], items, numbers, "GET")
  end
  return numbers
end
