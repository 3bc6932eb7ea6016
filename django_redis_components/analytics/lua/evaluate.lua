-- Count the users of an expression of bitmaps.
-- Precondition: the program leaves one result.
-- KEYS[1] base  prefix of the bitmaps
-- DERIVED base:<bitmap> base:scratch:<number>
-- ARGV[1..] program  in postfix notation: names of bitmaps, and the operations "&", "|<count>" and "-" (and not)
-- Returns the number of set bits
-- Cost: O(bitmaps) times O(bits); the memory of one bitmap for each operation that is nested
local base = KEYS[1]
local SCRATCH_MS = 60000

-- Keys of the operands; scratch keys that are free, and how many were named.
local stack, free, named = {}, {}, 0
local is_scratch = {}

local function delete_scratch(key)
  if is_scratch[key] then
    redis.call("UNLINK", key)
    is_scratch[key] = nil
    free[#free + 1] = key
  end
end

local function store(operation, operands)
  local into = table.remove(free)
  if not into then
    named = named + 1
    into = base .. ":scratch:" .. named
  end
  redis.call("BITOP", operation, into, unpack(operands))
  redis.call("PEXPIRE", into, SCRATCH_MS)
  is_scratch[into] = true
  return into
end

-- Take operands from the stack, in their order.
local function pop(count)
  local operands = {}
  for index = count, 1, -1 do
    operands[index] = table.remove(stack)
  end
  return operands
end

for index = 1, #ARGV do
  local part = ARGV[index]
  local count = string.match(part, "^|(%d+)$")
  if count or part == "&" or part == "-" then
    local operands = pop(tonumber(count or 2))
    local result
    if count then
      result = store("OR", operands)
    elseif part == "&" then
      result = store("AND", operands)
    else
      -- A bitmap that is shorter counts as zeros: NOT would lose the bits of the longer one behind it.
      local both = store("AND", operands)
      result = store("XOR", { operands[1], both })
      delete_scratch(both)
    end
    for _, key in ipairs(operands) do
      delete_scratch(key)
    end
    stack[#stack + 1] = result
  else
    stack[#stack + 1] = base .. ":" .. part
  end
end
local users = redis.call("BITCOUNT", stack[1])
delete_scratch(stack[1])
return users
