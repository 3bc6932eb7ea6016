-- Add the counts of a batch of lines to their days, and mark the batch as counted, in one step.
-- Precondition: the counts are grouped by day.
-- KEYS[1] base  prefix of the keys of the aggregator
-- DERIVED base:files base:file:<file> base:first:<first> base:day:<day>
-- ARGV[1] file  id of the file
-- ARGV[2] first  hash of its first line
-- ARGV[3] name  of the file, for people
-- ARGV[4] segment  number of the segment of the file
-- ARGV[5] before  offset that the segment was counted to; empty: it was not counted
-- ARGV[6] mark  offset after the batch, then its last line and the token of this call
-- ARGV[7] lines  number of lines that were parsed
-- ARGV[8] bad  number of lines that were not
-- ARGV[9] max_keys  keys of a day; further ones are counted under __other__
-- ARGV[10] ttl_ms  milliseconds for which counts and marks are kept after each write
-- ARGV[11..] counts  day, key and count of each
-- Returns 1: counted, now or by a call whose reply was lost
-- Returns 0: the segment was counted to another offset, by another process
-- Cost: O(n log keys) in the counts
local base = KEYS[1]
local file, first, name, segment, before, mark = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local lines, bad, max_keys, ttl_ms = ARGV[7], ARGV[8], tonumber(ARGV[9]), ARGV[10]
local COUNTS_FROM = 11
local MAX_COPIES = 16

local record, index = base .. ":file:" .. file, base .. ":files"
local stored = redis.call("HGET", record, "mark:" .. segment)
if stored == mark then
  return 1
elseif (stored and string.match(stored, "^%d+") or "") ~= before then
  return 0
end

local last, sum, room
local function finish_day()
  if last then
    redis.call("ZINCRBY", last, sum, "")
    redis.call("PEXPIRE", last, ttl_ms)
  end
end
for at = COUNTS_FROM, #ARGV, 3 do
  local day, key, count = base .. ":day:" .. ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if day ~= last then
    finish_day()
    last, sum, room = day, 0, max_keys - math.max(0, redis.call("ZCARD", day) - 1) -- one member is the sum
  end
  sum = sum + count
  if room <= 0 and not redis.call("ZSCORE", day, key) then
    key = "__other__"
  end
  if redis.call("ZINCRBY", day, count, key) == count then
    room = room - 1
  end
end
finish_day()

local now_ms = redis.call("TIME")[1] * 1000
redis.call("HSET", record, "mark:" .. segment, mark, "name", name)
redis.call("HINCRBY", record, "lines", lines)
redis.call("HINCRBY", record, "bad", bad)
redis.call("ZADD", index, now_ms, file)
redis.call("ZREMRANGEBYSCORE", index, "-inf", "(" .. (now_ms - ttl_ms))
local copies = base .. ":first:" .. first
if redis.call("HLEN", copies) < MAX_COPIES then
  redis.call("HSET", copies, file, 1)
end
for _, key in ipairs({ record, index, copies }) do
  redis.call("PEXPIRE", key, ttl_ms)
end
return 1
