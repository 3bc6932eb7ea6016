-- Remove a document.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the index
-- DERIVED base:docs base:stats base:gen base:vocabulary base:geo base:w:<term> base:s:<sort> base:f:<facet> base:v:<name>
-- ARGV[1] id  text
-- Returns 1: removed
-- Returns 2: it did not exist
-- Cost: O(terms of the document) times O(log n)
local base = KEYS[1]
local id = ARGV[1]
-- @include documents

if not drop(base, id, { sorts = {} }) then
  return 2
end
redis.call("ZREM", base .. ":geo", id)
redis.call("INCR", base .. ":gen")
return 1
