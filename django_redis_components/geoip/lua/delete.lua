-- Delete the loaded ranges, and a load that is not visible yet.
-- Precondition: none.
-- KEYS[1] base  hash: the loaded ranges
-- DERIVED base:build base:built base:<generation>
-- Returns 1: deleted
-- Returns 0: there was nothing
-- Cost: O(1); the server frees the blocks in the background
local base = KEYS[1]

local existed = 0
for _, generation in ipairs({ redis.call("HGET", base, "generation") or "", redis.call("GET", base .. ":build") or "" }) do
  if generation ~= "" then
    existed = 1
    redis.call("UNLINK", base .. ":" .. generation)
  end
end
redis.call("UNLINK", base, base .. ":build", base .. ":built")
return existed
