-- Make a finished load of ranges the visible one, in one step.
-- Precondition: all blocks were added.
-- KEYS[1] base  hash: the loaded ranges
-- DERIVED base:build base:built base:<token>
-- ARGV[1] token  of this load
-- ARGV[2] blocks  number of its blocks
-- ARGV[3] ranges  number of its ranges
-- ARGV[4] source  text: where they are from
-- Returns 1: replaced, now or by a call whose reply was lost
-- Returns -1: superseded, or expired; or blocks are missing
-- Cost: O(1); the server frees the former blocks in the background
local base = KEYS[1]
local token, blocks, ranges, source = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
-- @include rebuild
local build, built, new = base .. ":build", base .. ":built", base .. ":" .. token

if is_built(built, token) then
  return 1
elseif not is_active(build, token) or redis.call("ZCARD", new) ~= blocks then
  return SUPERSEDED
end
local former = redis.call("HGET", base, "generation")
local at = redis.call("TIME")[1]
redis.call("PERSIST", new)
redis.call("HSET", base, "generation", token, "blocks", blocks, "ranges", ranges, "source", source, "loaded_at", at)
if former then
  redis.call("UNLINK", base .. ":" .. former)
end
finish_rebuild(build, built, token)
return 1
