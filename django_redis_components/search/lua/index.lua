-- Add or replace a document: its postings, sort values and facets.
-- Precondition: the record has the terms, sort names and facets of the other arguments.
-- KEYS[1] base  prefix of the keys of the index
-- DERIVED base:docs base:stats base:gen base:vocabulary base:geo base:w:<term> base:s:<sort> base:f:<facet> base:v:<name>
-- ARGV[1] id  text
-- ARGV[2] record  see shared/documents.lua
-- ARGV[3] length  number of words, weighted
-- ARGV[4] longitude  degrees; empty for a document without a place
-- ARGV[5] latitude  degrees
-- ARGV[6] counts  how many pairs of sort name and value follow, then pairs of term and weighted frequency
-- ARGV[7..] pairs  sort name and value, then term and frequency, alternating
-- Returns 1: written
-- Returns 2: only sort values and the place were written
-- Cost: O(terms of the old and the new document) times O(log n)
local base = KEYS[1]
local id, record, length = ARGV[1], ARGV[2], tonumber(ARGV[3])
local longitude, latitude, counts = ARGV[4], ARGV[5], tonumber(ARGV[6])
-- @include documents

local sorts_end = 6 + 2 * counts
for at = 7, sorts_end, 2 do
  redis.call("ZADD", base .. ":s:" .. ARGV[at], ARGV[at + 1], id)
end
if longitude ~= "" then
  redis.call("GEOADD", base .. ":geo", longitude, latitude, id)
else
  redis.call("ZREM", base .. ":geo", id)
end
redis.call("INCR", base .. ":gen")
if redis.call("HGET", base .. ":docs", id) == record then
  return 2
end
drop(base, id, { sorts = sorts_of(record) })
local total = redis.call("HINCRBYFLOAT", base .. ":stats", "length", length)
redis.call("HSET", base .. ":docs", id, record)
local average = math.max(total / redis.call("HLEN", base .. ":docs"), 1)
for at = sorts_end + 1, #ARGV, 2 do
  local term, frequency = ARGV[at], tonumber(ARGV[at + 1])
  local key = base .. ":w:" .. term
  if redis.call("ZADD", key, saturated(frequency, length, average), id) == 1 and redis.call("ZCARD", key) == 1 then
    redis.call("ZADD", base .. ":vocabulary", 0, term)
  end
end
for _, facet in ipairs(facets_of(record)) do
  redis.call("SADD", base .. ":f:" .. facet, id)
  local name, value = string.match(facet, "^([^=]*)=(.*)$")
  redis.call("ZINCRBY", base .. ":v:" .. name, 1, value)
end
return 1
