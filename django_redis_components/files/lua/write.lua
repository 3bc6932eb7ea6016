-- Write a chunk of a file, and renew the lease of its upload.
-- Precondition: the bytes are reserved.
-- KEYS[1] base  prefix of the keys of the channel
-- DERIVED base:deadlines base:file:<id> base:file:<id>:<number> base:file:<id>:crc
-- ARGV[1] id  of the file
-- ARGV[2] number  of the chunk, from 0
-- ARGV[3] crc  CRC-32 of the chunk, 4 bytes
-- ARGV[4] lease_ms  milliseconds after which the upload counts as dead
-- ARGV[5] data  bytes
-- Returns 1: written
-- Returns -1: the upload was removed: its lease expired
-- Cost: O(bytes)
-- @include channel
local base = KEYS[1]
local id, number, crc, lease_ms, data = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]

local now_ms = read_clock()
local key = file_key(base, id)
local expires_ms, state = unpack(redis.call("HMGET", key, "expires_ms", "state"))
if state ~= "publishing" or redis.call("ZSCORE", base .. ":deadlines", id) == false then
  return -1
end
redis.call("SET", key .. ":" .. number, data, "PXAT", expires_ms + GRACE_MS)
redis.call("SETRANGE", key .. ":crc", number * 4, crc)
redis.call("PEXPIREAT", key .. ":crc", expires_ms + GRACE_MS)
redis.call("ZADD", base .. ":deadlines", now_ms + lease_ms, id)
return 1
