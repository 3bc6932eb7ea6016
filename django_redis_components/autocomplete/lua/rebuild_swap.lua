-- Replace the index with a finished rebuild, in one step.
-- Precondition: every chunk was loaded.
-- KEYS[1] build  string: token of the active rebuild
-- KEYS[2] built  string: token of the last completed rebuild
-- KEYS[3] build_live  set
-- KEYS[4] lex  zset
-- KEYS[5] top  zset
-- KEYS[6] entries  hash
-- KEYS[7] build_lex  zset
-- KEYS[8] build_top  zset
-- KEYS[9] build_entries  hash
-- ARGV[1] token  opaque
-- Returns n >= 0: entries in the index; the swap is done, now or by a call whose reply was lost
-- Returns -1: superseded, or expired
-- Cost: O(1); the server frees the old keys in the background
local build, built, build_live = KEYS[1], KEYS[2], KEYS[3]
local lex, top, entries = KEYS[4], KEYS[5], KEYS[6]
local build_lex, build_top, build_entries = KEYS[7], KEYS[8], KEYS[9]
local token = ARGV[1]
-- @include rebuild

local function replace(old, new)
  redis.call("UNLINK", old)
  if redis.call("EXISTS", new) == 1 then
    redis.call("PERSIST", new)
    redis.call("RENAME", new, old)
  end
end

if not is_built(built, token) then
  if not is_active(build, token) then
    return SUPERSEDED
  end
  replace(lex, build_lex)
  replace(top, build_top)
  replace(entries, build_entries)
  redis.call("UNLINK", build_live)
  finish_rebuild(build, built, token)
end
return redis.call("HLEN", entries)
