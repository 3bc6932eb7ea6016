-- Make a finished load of ranges the visible one, in one step.
-- Precondition: all blocks were added.
-- KEYS[1] base  hash: the loaded ranges
-- DERIVED base:<generation>
-- ARGV[1] generation  of this load
-- ARGV[2] blocks  number of its blocks
-- ARGV[3] ranges  number of its ranges
-- ARGV[4] source  text: where they are from
-- ARGV[5] ttl_ms  milliseconds after which the former ranges are removed by the server, if the caller does not
-- Returns text: the generation that was replaced, now or by a call whose reply was lost; empty if there was none
-- Returns -1: blocks are missing
-- Cost: O(1)
local base = KEYS[1]
local generation, blocks, ranges, source, ttl_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]

local former = redis.call("HGET", base, "generation")
if former == generation then
  return redis.call("HGET", base, "former")
elseif redis.call("ZCARD", base .. ":" .. generation) ~= blocks then
  return -1
end
local at = redis.call("TIME")[1]
redis.call("PERSIST", base .. ":" .. generation)
redis.call(
  "HSET", base, "generation", generation, "blocks", blocks, "ranges", ranges, "source", source, "loaded_at", at,
  "former", former or ""
)
if former then
  redis.call("PEXPIRE", base .. ":" .. former, ttl_ms)
end
return former or ""
