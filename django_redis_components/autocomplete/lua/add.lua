-- Add or replace the entry of an id, in the index and in an active rebuild.
-- Precondition: the record has 1 to 32 terms; no part of it contains NUL or 0x01.
-- KEYS[1] lex  zset of members
-- KEYS[2] top  zset of members by prefix and weight
-- KEYS[3] entries  hash id -> record
-- KEYS[4] build  string: token of the active rebuild, with its TTL
-- KEYS[5] build_lex  zset
-- KEYS[6] build_top  zset
-- KEYS[7] build_entries  hash
-- KEYS[8] build_live  set of ids written during the rebuild; it must not overwrite them
-- ARGV[1] id  text
-- ARGV[2] record  see shared/entries.lua
-- Returns 1: written
-- Returns 2: unchanged
-- Cost: O(terms) times O(log n)
local lex, top, entries, build = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local build_lex, build_top, build_entries, build_live = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local id, record = ARGV[1], ARGV[2]
-- @include entries

local changed = put(lex, top, entries, id, record)
local left_ms = redis.call("PTTL", build)
if left_ms > 0 then
  put(build_lex, build_top, build_entries, id, record)
  redis.call("SADD", build_live, id)
  for index = 5, 8 do
    redis.call("PEXPIRE", KEYS[index], left_ms)
  end
end
return changed and 1 or 2
