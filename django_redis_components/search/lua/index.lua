-- Add or replace a document: its postings, sort values and facets.
-- Precondition: the record has the terms and sort names of the other arguments.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:gen root:dropping, and of each generation root:<number>: docs facets stats vocabulary names geo w:<term> s:<sort> f:<facet>
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
-- @include documents
-- @include dropping
-- Keys of an abandoned generation that one write deletes.
local DROPPED_KEYS = 20
local sorts_start, sorts_end = 9, 8 + 2 * counts

-- Write sort values and the place; return the names of the sort values.
local function write_values(base)
  local names = {}
  for at = sorts_start, sorts_end, 2 do
    local name = ARGV[at]
    names[name] = true
    redis.call("ZADD", base .. ":s:" .. name, ARGV[at + 1], id)
    redis.call("SADD", base .. ":names", "s:" .. name)
  end
  if longitude ~= "" then
    redis.call("GEOADD", base .. ":geo", longitude, latitude, id)
  else
    redis.call("ZREM", base .. ":geo", id)
  end
  return names
end

local function write_postings(base, average)
  for at = sorts_end + 1, #ARGV, 2 do
    local term, frequency = ARGV[at], tonumber(ARGV[at + 1])
    local key = base .. ":w:" .. term
    if redis.call("ZADD", key, saturated(frequency, length, average), id) == 1 and (force or redis.call("ZCARD", key) == 1) then
      redis.call("ZADD", base .. ":vocabulary", 0, term)
    end
  end
end

local function write_facets(base)
  if facets ~= "" then
    redis.call("HSET", base .. ":facets", id, facets)
  end
  for _, facet in ipairs(items_of(facets)) do
    redis.call("SADD", base .. ":f:" .. facet, id)
    redis.call("SADD", base .. ":names", "f:" .. facet)
  end
end

local function is_same(base)
  return redis.call("HGET", base .. ":docs", id) == record and (redis.call("HGET", base .. ":facets", id) or "") == facets
end

local average
local code = 2
for _, base in ipairs(written_bases(root)) do
  local names = write_values(base)
  if force or not is_same(base) then
    drop(base, id, names)
    local total = redis.call("HINCRBYFLOAT", base .. ":stats", "length", length)
    redis.call("HSET", base .. ":docs", id, record)
    -- A generation that is being built has few documents yet: the average is that of the one that is read.
    average = average or math.max(total / redis.call("HLEN", base .. ":docs"), 1)
    write_postings(base, average)
    write_facets(base)
    code = 1
  elseif not average then
    local total = tonumber(redis.call("HGET", base .. ":stats", "length") or "0")
    average = math.max(total / redis.call("HLEN", base .. ":docs"), 1)
  end
end
redis.call("INCR", root .. ":gen")
drop_keys(root, DROPPED_KEYS)
return code
