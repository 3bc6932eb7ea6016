-- Remove an entry from the index; an active rebuild does not add it again.
-- Precondition: none.
-- KEYS[1] lex  zset of members
-- KEYS[2] top  zset of members by prefix and weight
-- KEYS[3] entries  hash id -> record
-- KEYS[4] build  string: token of the active rebuild, with its TTL
-- KEYS[5] build_lex  zset
-- KEYS[6] build_top  zset
-- KEYS[7] build_entries  hash
-- KEYS[8] build_live  set of ids written during the rebuild; it must not overwrite them
-- ARGV[1] id  text
-- Returns 1: removed
-- Returns 2: it did not exist
-- Cost: O(terms) times O(log n)
local lex, top, entries, build = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local build_lex, build_top, build_entries, build_live = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local id = ARGV[1]
-- @include entries

local removed = drop(lex, top, entries, id)
local left_ms = redis.call("PTTL", build)
if left_ms > 0 then
  drop(build_lex, build_top, build_entries, id)
  redis.call("SADD", build_live, id)
  redis.call("PEXPIRE", build_live, left_ms)
end
return removed and 1 or 2
