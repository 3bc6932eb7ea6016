-- Remove counts and marks of an aggregator, some in each call.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the aggregator
-- DERIVED base:key base:days base:files base:file:<file> base:first:<first> base:day:<day>
-- ARGV[1] count  most days, and most files
-- Returns 1 if there was anything, otherwise 0; days and files that are left
-- Cost: O(n log files) in the count
local base = KEYS[1]
local count = tonumber(ARGV[1])

local index, days = base .. ":files", base .. ":days"
local existed = redis.call("EXISTS", index, days, base .. ":key") > 0 and 1 or 0
for _, file in ipairs(redis.call("ZRANGE", index, 0, count - 1)) do
  redis.call("UNLINK", base .. ":file:" .. file, base .. ":first:" .. string.match(file, "^%x*"))
  redis.call("ZREM", index, file)
end
for _, day in ipairs(redis.call("ZRANGE", days, 0, count - 1)) do
  redis.call("UNLINK", base .. ":day:" .. day)
  redis.call("ZREM", days, day)
end
redis.call("UNLINK", base .. ":key")
return { existed, redis.call("ZCARD", index) + redis.call("ZCARD", days) }
