-- A filter is a hash and a string for each of its layers, base:<generation>:<number>. The hash has: parameters;
-- generation; layers (their number); layout (bits, hashes and capacity of each layer that it may get, "m:k:n m:k:n …").
-- A layer starts with 8 bytes, of which the first says what a client that adds or looks up without a script must know:
local OPEN, CLOSED, REBUILDING = "\1", "\2", "\3"
-- OPEN: the newest layer. CLOSED: there is a newer one. REBUILDING: the newest one; items must be added to the rebuild too.
-- 4: the layer was removed. 0: there is no such key.
local HEADER_BITS = 64

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

-- Return the filter that a rebuild loads: its token is the generation, and its hash is base:<generation>:meta until it replaces
-- the filter; nil if none is active.
local function read_build(base)
  local token = redis.call("GET", base .. ":build")
  return token and read_filter(base, base .. ":" .. token .. ":meta") or nil
end

-- Return the hashes of items, two numbers of 48 bits each, and how many items there are.
local function read_items(packed)
  local count = #packed / 12
  local items = { struct.unpack(">" .. string.rep("I6I6", count), packed) }
  items.count = count
  return items
end

-- Get or set the bits of items in a layer, given by their numbers; return the numbers of those whose bits were not all set.
-- Enhanced double hashing (Dillinger and Manolios, "Bloom Filters in Probabilistic Verification", 2004), as in hashing.py.
local function apply_bits(layer, items, numbers, operation)
  local bits, hashes, missing, from = layer.bits, layer.hashes, {}, 1
  local step = math.floor(MAX_OPERANDS / (4 * hashes))
  local width = operation == "SET" and 4 or 3
  -- Only the offsets differ between items: the other operands are written once.
  local operands = {}
  for index = 1, width * hashes * math.min(step, #numbers), width do
    operands[index], operands[index + 1], operands[index + 2], operands[index + 3] = operation, "u1", 0, "1"
  end
  while from <= #numbers do
    local index, last = 3, math.min(from + step - 1, #numbers)
    for number = from, last do
      local item = 2 * numbers[number]
      local x, y = items[item - 1] % bits, items[item] % bits
      for hash = 1, hashes do
        operands[index] = x + HEADER_BITS
        index = index + width
        x, y = x + y, y + hash
        x, y = x < bits and x or x - bits, y < bits and y or y - bits
      end
    end
    local old = redis.call("BITFIELD", layer.key, unpack(operands, 1, width * hashes * (last - from + 1)))
    local first = 0
    for number = from, last do
      for hash = first + 1, first + hashes do
        if old[hash] == 0 then
          missing[#missing + 1] = numbers[number]
          break
        end
      end
      first = first + hashes
    end
    from = last + 1
  end
  return missing
end

-- Return the numbers of the items that are in none of some layers of a filter, the newest looked at first.
local function absent_from(filter, items, numbers, first_layer, last_layer)
  for number = last_layer, first_layer, -1 do
    if #numbers == 0 then
      break
    end
    numbers = apply_bits(filter.layers[number], items, numbers, "GET")
  end
  return numbers
end
