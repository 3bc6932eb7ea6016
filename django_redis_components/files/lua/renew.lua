-- Renew the lease of an upload.
-- Precondition: the bytes are reserved.
-- KEYS[1] base  prefix of the keys of the channel
-- DERIVED base:deadlines base:file:<id>
-- ARGV[1] id  of the file
-- ARGV[2] lease_ms  milliseconds after which the upload counts as dead
-- Returns 1: renewed
-- Returns -1: the upload was removed: its lease expired
-- Cost: O(log(files))
-- @include channel
local base = KEYS[1]
local id, lease_ms = ARGV[1], tonumber(ARGV[2])

local now_ms = read_clock()
if redis.call("HGET", file_key(base, id), "state") ~= "publishing" then
  return -1
end
redis.call("ZADD", base .. ":deadlines", "XX", now_ms + lease_ms, id)
return 1
