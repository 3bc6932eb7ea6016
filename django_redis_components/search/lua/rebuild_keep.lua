-- Make keys of the generation that is built permanent: it was loaded and is about to be read. Call it for each part, from cursor 0
-- until it returns 0.
-- Precondition: every document was loaded.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:build, and of each generation root:<number>: live docs facets stats vocabulary names geo w:<term> s:<sort> f:<facet>
-- ARGV[1] token  of the rebuild
-- ARGV[2] ttl_ms  milliseconds after which the rebuild expires without a further step
-- ARGV[3] part  names or vocabulary
-- ARGV[4] cursor  0, or what the last call returned
-- ARGV[5] limit  about how many keys, at most 1,000
-- Returns n > 0: the next cursor
-- Returns 0: all keys of the part are permanent
-- Returns -1: superseded, or expired
-- Cost: O(limit)
local root = KEYS[1]
local token, ttl_ms, part, cursor, limit = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
-- @include clock
-- @include rebuild
-- @include generations
local clock = {}

local is_active_rebuild = renew_rebuild(root .. ":build", token, ttl_ms)
local base, until_ms = building_base(root)
if not (is_active_rebuild and base) then
  return SUPERSEDED
end
if until_ms then
  -- No key may expire before the last step.
  read_clock(clock)
  if clock.now_ms + ttl_ms > tonumber(until_ms) then
    return SUPERSEDED
  end
  -- Keys written from now on are permanent. The others are found in the vocabulary and the names, also by drop_generation if
  -- the rebuild is killed now: so these come first.
  redis.call("HDEL", root .. ":state", "until")
  for _, key in ipairs(common_keys(base)) do
    redis.call("PERSIST", key)
  end
end
local found
if part == "names" then
  found = redis.call("SSCAN", base .. ":names", cursor, "COUNT", limit)
  for _, name in ipairs(found[2]) do
    redis.call("PERSIST", base .. ":" .. name)
  end
else
  found = redis.call("ZSCAN", base .. ":vocabulary", cursor, "COUNT", limit)
  for number = 1, #found[2], 2 do
    redis.call("PERSIST", base .. ":w:" .. found[2][number])
  end
end
return tonumber(found[1])
