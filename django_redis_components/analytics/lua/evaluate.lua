-- Count the users of an expression of bitmaps.
-- Precondition: the program leaves one result.
-- KEYS[1] base  prefix of the bitmaps
-- DERIVED base:<bitmap> base:scratch:<number>
-- ARGV[1..] program  in postfix notation: names of bitmaps, and the operations "&", "|" and "-" (and not)
-- Returns the number of set bits
-- Cost: O(bitmaps) times O(bits)
local base = KEYS[1]
local SCRATCH_MS = 60000

local stack, scratch = {}, {}

local function store(operation, first, second)
  local into = base .. ":scratch:" .. (#scratch + 1)
  scratch[#scratch + 1] = into
  redis.call("BITOP", operation, into, first, second)
  redis.call("PEXPIRE", into, SCRATCH_MS)
  return into
end

for at = 1, #ARGV do
  local part = ARGV[at]
  if part == "&" or part == "|" or part == "-" then
    local second, first = table.remove(stack), table.remove(stack)
    if part == "|" then
      stack[#stack + 1] = store("OR", first, second)
    elseif part == "&" then
      stack[#stack + 1] = store("AND", first, second)
    else
      -- A bitmap that is shorter counts as zeros: NOT would lose the bits of the longer one behind it.
      stack[#stack + 1] = store("XOR", first, store("AND", first, second))
    end
  else
    stack[#stack + 1] = base .. ":" .. part
  end
end
local count = redis.call("BITCOUNT", stack[1])
if #scratch > 0 then
  redis.call("UNLINK", unpack(scratch))
end
return count
