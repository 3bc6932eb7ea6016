-- Record how far a consumer has read a file, or processed it.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the channel
-- DERIVED base:file:<id> base:file:<id>:progress
-- ARGV[1] id  of the file
-- ARGV[2] consumer  name
-- ARGV[3] kind  "read" for the dashboard; "raw" or "data": processed bytes, of the file or decompressed
-- ARGV[4] offset  bytes
-- Returns 1: recorded
-- Returns 0: there is no such file
-- Cost: O(1)
-- @include channel
local base = KEYS[1]
local id, consumer, kind, offset = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local key = file_key(base, id)
local expires_ms = redis.call("HGET", key, "expires_ms")
if not expires_ms then
  return 0
end
redis.call("HSET", key .. ":progress", kind .. ":" .. consumer, offset)
redis.call("PEXPIREAT", key .. ":progress", expires_ms + GRACE_MS)
return 1
