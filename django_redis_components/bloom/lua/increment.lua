-- Add to the counters of items in a count-min sketch, and create the sketch.
-- Precondition: none.
-- KEYS[1] sketch  string: width, depth (32 bits each), sum of all counts (64), then depth rows of width 32-bit counters
-- ARGV[1] width  counters of a row
-- ARGV[2] depth  rows
-- ARGV[3] ttl_ms  milliseconds for which the sketch is kept after this; 0: for ever
-- ARGV[4] items  16 bytes each: two hashes of 48 bits, and what to add
-- Returns the new estimate of each item
-- Returns -1 and the stored width and depth: they differ
-- Cost: O(items) times O(depth); O(width * depth) when the sketch is created
local sketch = KEYS[1]
local width, depth, ttl_ms, items = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local HEADER_BITS, ITEM_BYTES = 128, 16
-- Operands of one BITFIELD; more would overflow Lua's stack.
local MAX_OPERANDS = 6000

local stored = redis.call("BITFIELD_RO", sketch, "GET", "u32", 0, "GET", "u32", 32)
if stored[1] == 0 then
  redis.call("SETBIT", sketch, HEADER_BITS + width * depth * 32 - 1, 0)
  redis.call("BITFIELD", sketch, "SET", "u32", 0, width, "SET", "u32", 32, depth)
elseif stored[1] ~= width or stored[2] ~= depth then
  return { -1, stored[1], stored[2] }
end

local estimates, sum, operands = {}, 0, {}

-- Send the collected operands, and append the estimates.
local function send()
  local counts = redis.call("BITFIELD", sketch, "OVERFLOW", "SAT", unpack(operands))
  for first = 1, #counts, depth do
    local least = counts[first]
    for index = first + 1, first + depth - 1 do
      least = math.min(least, counts[index])
    end
    estimates[#estimates + 1] = least
  end
  operands = {}
end

for index = 1, #items, ITEM_BYTES do
  local first, second, added = struct.unpack(">I6I6I4", items, index)
  local x, y = first % width, second % width
  for row = 1, depth do
    local count = #operands
    operands[count + 1], operands[count + 2] = "INCRBY", "u32"
    operands[count + 3] = string.format("%.0f", HEADER_BITS + ((row - 1) * width + x) * 32)
    operands[count + 4] = string.format("%.0f", added)
    x, y = (x + y) % width, (y + row) % width
  end
  sum = sum + added
  if #operands + 4 * depth > MAX_OPERANDS then
    send()
  end
end
if #operands > 0 then
  send()
end
redis.call("BITFIELD", sketch, "OVERFLOW", "SAT", "INCRBY", "i64", 64, string.format("%.0f", sum))
if ttl_ms > 0 then
  redis.call("PEXPIRE", sketch, ttl_ms)
end
return estimates
