-- Add or replace a document: its postings, sort values and facets.
-- Precondition: the record has the terms and sort names of the other arguments.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:build root:gen root:dropping, and of each generation root:<number>: live docs facets stats vocabulary names geo w:<term> s:<sort> f:<facet>
-- ARGV[1] id  text
-- ARGV[2] record  see shared/documents.lua
-- ARGV[3] facets  see shared/documents.lua
-- ARGV[4] length  number of words, weighted
-- ARGV[5] longitude  degrees; empty for a document without a place
-- ARGV[6] latitude  degrees
-- ARGV[7] force  1: write the postings also if the record is the same
-- ARGV[8] counts  how many pairs of sort name and value follow, then pairs of term and weighted frequency
-- ARGV[9..] pairs  sort name and value, then term and frequency, alternating
-- Returns 1: written
-- Returns 2: only sort values and the place were written
-- Cost: O(terms of the old and the new document) times O(log n), twice during a rebuild; and O(DROPPED_KEYS) after one was abandoned
local root = KEYS[1]
local id, record, facets, length = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local longitude, latitude, force, counts = ARGV[5], ARGV[6], ARGV[7] == "1", tonumber(ARGV[8])
-- @include generations
-- @include writing
-- @include dropping
-- Keys of an abandoned generation that one write deletes.
local DROPPED_KEYS = 20
local FIRST_PAIR = 9

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
local current, building, until_ms = written_bases(root)
local is_changed, average = write_document(current, document, force, nil, false)
if building then
  -- It has few documents yet: the average is that of the one that is read.
  redis.call("SADD", building .. ":live", id)
  is_changed = write_document(building, document, force, average, until_ms) or is_changed
end
redis.call("INCR", root .. ":gen")
drop_keys(root, DROPPED_KEYS)
return is_changed and 1 or 2
