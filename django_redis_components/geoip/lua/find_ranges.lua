-- Find the blocks of ranges that addresses may be in.
-- Precondition: the addresses are in order.
-- KEYS[1] base  hash: the loaded ranges
-- DERIVED base:<generation>
-- ARGV[1..] addresses  16 bytes each
-- Returns the blocks, in order and each once; empty if no ranges are loaded
-- Cost: O(n log blocks) in the addresses
local base = KEYS[1]

local generation = redis.call("HGET", base, "generation")
local blocks = {}
if not generation then
  return blocks
end
local last
for index = 1, #ARGV do
  local bound = "[" .. ARGV[index] .. "\255"
  local block = redis.call("ZRANGE", base .. ":" .. generation, bound, "-", "BYLEX", "REV", "LIMIT", 0, 1)[1]
  if block and block ~= last then
    blocks[#blocks + 1] = block
    last = block
  end
end
return blocks
