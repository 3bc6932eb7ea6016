-- Keep values of a pool for worker processes that start later.
-- Precondition: none; a value that is kept already is replaced.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] author  who requested it
-- ARGV[2..] values  pairs of field (host, command line and name of the value, between newlines) and value without spaces
-- DERIVED base:kept_pools hash
-- Returns 1: kept
-- Returns 0: too many values are kept
-- Cost: O(values)
local base = KEYS[1]
local author = ARGV[1]
-- @include context

-- Most values that are kept: the operator reads all of them.
local MAX_KEPT = 3000
local ctx = new_context(base)
local kept = base_key(ctx, K.kept_pools)
local added = 0
for index = 2, #ARGV, 2 do
  added = added + 1 - redis.call("HEXISTS", kept, ARGV[index])
end
if added > 0 and redis.call("HLEN", kept) + added > MAX_KEPT then
  return 0
end
for index = 2, #ARGV, 2 do
  redis.call("HSET", kept, ARGV[index], string.format("%.0f %s %s", ctx.now_ms, ARGV[index + 1], author))
end
return 1
