-- Count items of a top list; an item without a counter takes the smallest one (Space-Saving).
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the list
-- DERIVED base:counts base:errors base:meta
-- ARGV[1] parameters  of the list
-- ARGV[2] counters  items that have a counter
-- ARGV[3] ttl_ms  milliseconds for which the list is kept after this; 0: for ever
-- ARGV[4..] items  each followed by what to add
-- Returns the new count of each item
-- Returns -1 and the stored parameters: they differ
-- Cost: O(items) times O(log counters)
local base = KEYS[1]
local parameters, counters, ttl_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ITEMS_FROM = 4

local counts, errors, meta = base .. ":counts", base .. ":errors", base .. ":meta"
local stored = redis.call("HGET", meta, "parameters")
if stored and stored ~= parameters then
  return { -1, stored }
end
redis.call("HSET", meta, "parameters", parameters)
local used, sum, replies = redis.call("ZCARD", counts), 0, {}
for index = ITEMS_FROM, #ARGV, 2 do
  local item, added = ARGV[index], ARGV[index + 1]
  if not redis.call("ZSCORE", counts, item) then
    if used < counters then
      used = used + 1
    else
      local smallest = redis.call("ZPOPMIN", counts)
      redis.call("HDEL", errors, smallest[1])
      redis.call("HSET", errors, item, smallest[2])
      redis.call("ZADD", counts, smallest[2], item)
    end
  end
  replies[#replies + 1] = tonumber(redis.call("ZINCRBY", counts, added, item))
  sum = sum + added
end
redis.call("HINCRBY", meta, "total", string.format("%.0f", sum))
if ttl_ms > 0 then
  redis.call("PEXPIRE", counts, ttl_ms)
  redis.call("PEXPIRE", errors, ttl_ms)
  redis.call("PEXPIRE", meta, ttl_ms)
end
return replies
