-- Add the counts of a batch of lines to their days, and mark the batch as counted, in one step.
-- Precondition: the counts are grouped by day.
-- KEYS[1] base  prefix of the keys of the aggregator
-- DERIVED base:key base:days base:files base:file:<file> base:first:<first> base:day:<day>
-- ARGV[1] file  id of the file
-- ARGV[2] first  hash of its first line
-- ARGV[3] head  hashes of its first lines
-- ARGV[4] name  of the file, for people
-- ARGV[5] key_name  name of the key function
-- ARGV[6] segment  number of the segment of the file
-- ARGV[7] before  offset that the segment was counted to; empty: it was not counted
-- ARGV[8] mark  offset after the batch, then a digest of the text before it and the token of this call
-- ARGV[9] lines  number of lines that were parsed
-- ARGV[10] bad  number of lines that were not
-- ARGV[11] max_keys  keys of a day; further ones are counted under __other__
-- ARGV[12] ttl_ms  milliseconds for which counts and marks are kept after each write
-- ARGV[13..] counts  day, key and count of each
-- Returns 1: counted, now or by a call whose reply was lost
-- Returns 0: the segment was counted to another offset, by another process
-- Returns text: the name of the other key function whose counts are stored; nothing was counted
-- Cost: O(n log keys) in the counts
local base = KEYS[1]
local file, first, head, name, key_name, segment = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local before, mark = ARGV[7], ARGV[8]
local lines, bad, max_keys, ttl_ms = ARGV[9], ARGV[10], tonumber(ARGV[11]), ARGV[12]
local COUNTS_FROM = 13
-- Files of one first line that are kept, the latest ones.
local MAX_COPIES = 16
-- Days that are known to `delete`.
local MAX_DAYS = 10000

local record, index, days, by = base .. ":file:" .. file, base .. ":files", base .. ":days", base .. ":key"
local stored = redis.call("HGET", record, "mark:" .. segment)
if stored == mark then
  return 1
elseif (stored and string.match(stored, "^%d+") or "") ~= before then
  return 0
end
local counted_by = redis.call("GET", by)
if counted_by and counted_by ~= key_name then
  return counted_by
end
redis.call("SET", by, key_name, "PX", ttl_ms)

local last, sum, room
local function finish_day()
  if last then
    redis.call("ZINCRBY", last, sum, "")
    redis.call("PEXPIRE", last, ttl_ms)
  end
end
for position = COUNTS_FROM, #ARGV, 3 do
  local day, key, count = base .. ":day:" .. ARGV[position], ARGV[position + 1], ARGV[position + 2]
  if day ~= last then
    finish_day()
    last, sum, room = day, 0, max_keys - math.max(0, redis.call("ZCARD", day) - 1) -- one member is the sum
    redis.call("ZADD", days, ARGV[position], ARGV[position])
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
redis.call("ZREMRANGEBYRANK", days, 0, -1 - MAX_DAYS)

local time = redis.call("TIME")
local now_ms, now_us = time[1] * 1000, string.format("%d%06d", time[1], time[2])
redis.call("HSET", record, "mark:" .. segment, mark, "name", name)
if #head > #(redis.call("HGET", record, "head") or "") then
  redis.call("HSET", record, "head", head)
end
redis.call("HINCRBY", record, "lines", lines)
redis.call("HINCRBY", record, "bad", bad)
redis.call("ZADD", index, now_ms, file)
redis.call("ZREMRANGEBYSCORE", index, "-inf", "(" .. (now_ms - ttl_ms))
local copies = base .. ":first:" .. first
redis.call("ZADD", copies, now_us, file) -- the order of calls within a second counts too
redis.call("ZREMRANGEBYRANK", copies, 0, -1 - MAX_COPIES)
for _, key in ipairs({ record, index, copies, days }) do
  redis.call("PEXPIRE", key, ttl_ms)
end
return 1
