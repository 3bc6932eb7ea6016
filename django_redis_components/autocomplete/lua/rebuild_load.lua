-- Load a chunk of entries into the rebuild. Entries written since it started are newer and are kept.
-- Precondition: as for add.
-- KEYS[1] build  string: token of the active rebuild
-- KEYS[2] build_lex  zset
-- KEYS[3] build_top  zset
-- KEYS[4] build_entries  hash
-- KEYS[5] build_live  set of ids written by add and remove since it started
-- ARGV[1] token  opaque
-- ARGV[2] ttl_ms  milliseconds after which the rebuild expires without a further step
-- ARGV[3..] pairs  id and record, alternating
-- Returns 1: loaded
-- Returns -1: superseded, or expired
-- Cost: O(terms of the chunk) times O(log n)
local build, build_lex, build_top, build_entries, build_live = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl_ms = ARGV[1], ARGV[2]
-- @include entries
-- @include rebuild

if not renew_rebuild(build, token, ttl_ms) then
  return SUPERSEDED
end
for index = 3, #ARGV, 2 do
  if redis.call("SISMEMBER", build_live, ARGV[index]) == 0 then
    put(build_lex, build_top, build_entries, ARGV[index], ARGV[index + 1])
  end
end
for number = 2, #KEYS do
  redis.call("PEXPIRE", KEYS[number], ttl_ms)
end
return 1
