-- Forget that a file was counted. The counts stay.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the aggregator
-- DERIVED base:files base:file:<file> base:first:<first>
-- ARGV[1] file  id of the file
-- ARGV[2] first  hash of its first line
-- Returns 1: there is no mark of it now
-- Cost: O(log(files))
local base = KEYS[1]
local file, first = ARGV[1], ARGV[2]

redis.call("ZREM", base .. ":files", file)
redis.call("ZREM", base .. ":first:" .. first, file)
redis.call("UNLINK", base .. ":file:" .. file)
return 1
