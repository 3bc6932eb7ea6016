-- Load a document into the generation that is built. One that was written since the rebuild started is newer and is kept.
-- Precondition: as for index.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:build, and of each generation root:<number>: live docs facets stats vocabulary names geo w:<term> s:<sort> f:<facet>
-- ARGV[1] token  of the rebuild
-- ARGV[2] ttl_ms  milliseconds after which the rebuild expires without a further step
-- ARGV[3] id  text
-- ARGV[4] record  see shared/documents.lua
-- ARGV[5] facets  see shared/documents.lua
-- ARGV[6] length  number of words, weighted
-- ARGV[7] longitude  degrees; empty for a document without a place
-- ARGV[8] latitude  degrees
-- ARGV[9] counts  how many pairs of sort name and value follow, then pairs of term and weighted frequency
-- ARGV[10..] pairs  sort name and value, then term and frequency, alternating
-- Returns 1: loaded
-- Returns 2: it was written since the rebuild started
-- Returns -1: superseded, or expired
-- Cost: O(terms of the document) times O(log n)
local root = KEYS[1]
local token, ttl_ms, id, record, facets, length = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local longitude, latitude, counts = ARGV[7], ARGV[8], tonumber(ARGV[9])
-- @include rebuild
-- @include generations
-- @include writing
local FIRST_PAIR = 10

local is_active_rebuild = renew_rebuild(root .. ":build", token, ttl_ms)
local base, until_ms = building_base(root)
if not (is_active_rebuild and base) then
  return SUPERSEDED
end
if redis.call("SISMEMBER", base .. ":live", id) == 1 then
  return 2
end
local document = {
  id = id,
  record = record,
  facets = facets,
  length = length,
  longitude = longitude,
  latitude = latitude,
  args = ARGV,
  sorts = FIRST_PAIR,
  terms = FIRST_PAIR + 2 * counts,
}
write_document(base, document, false, average_length(current_base(root)), until_ms)
return 1
