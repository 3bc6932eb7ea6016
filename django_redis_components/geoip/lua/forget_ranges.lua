-- Remove the loaded ranges from view. Their blocks are removed in further steps.
-- Precondition: none.
-- KEYS[1] base  hash: the loaded ranges
-- DERIVED base:<generation>
-- ARGV[1] ttl_ms  milliseconds after which the blocks are removed by the server, if the caller does not
-- Returns text: the generation that was removed; empty if there was none
-- Cost: O(1)
local base = KEYS[1]
local ttl_ms = ARGV[1]

local generation = redis.call("HGET", base, "generation")
if not generation then
  return ""
end
redis.call("PEXPIRE", base .. ":" .. generation, ttl_ms)
redis.call("UNLINK", base)
return generation
