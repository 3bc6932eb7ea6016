-- Reserve bytes of the channel for a file, or wait in the queue of producers, first come, first served.
-- Precondition: the file is not larger than the limit.
-- KEYS[1] base  prefix of the keys of the channel
-- DERIVED base:bytes base:limit base:sizes base:deadlines base:waiting base:waiting_until base:room:<id> base:file:<id>
-- ARGV[1] id  of the file, by which the call is idempotent
-- ARGV[2] bytes  to reserve
-- ARGV[3] chunks  number of chunks
-- ARGV[4] limit  bytes of the channel
-- ARGV[5] max_files  number of files
-- ARGV[6] lease_ms  milliseconds after which the upload counts as dead
-- ARGV[7] ttl_ms  milliseconds for which the file is kept
-- ARGV[8] waiting_ms  milliseconds after which the waiting producer counts as dead
-- ARGV[9..] fields  fields of the file and their values
-- Returns {1, 0, 0}: reserved
-- Returns {0, bytes, files}: there is no room, or others wait; what is reserved
-- Returns {-1, limit, 0}: the channel has files under another limit
-- Cost: O(log(files)) and the producers that died while they waited
-- @include channel
local base = KEYS[1]
local id, bytes, chunks, limit = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local max_files, lease_ms, ttl_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local waiting_ms = tonumber(ARGV[8])

local now_ms, now_us = read_clock()
local sizes, deadlines, waiting = base .. ":sizes", base .. ":deadlines", base .. ":waiting"
if redis.call("HEXISTS", sizes, id) == 1 then
  return { 1, 0, 0 }
end
local stored = tonumber(redis.call("GET", base .. ":limit") or limit)
if stored ~= limit then
  return { -1, stored, 0 }
end
local reserved, files = usage(base)
local first = first_waiter(base, now_ms)
if reserved + bytes > limit or files >= max_files or (first and first ~= id) then
  redis.call("ZADD", waiting, "NX", now_us, id)
  redis.call("ZADD", base .. ":waiting_until", now_ms + waiting_ms, id)
  extend(waiting, waiting_ms + GRACE_MS)
  extend(base .. ":waiting_until", waiting_ms + GRACE_MS)
  return { 0, reserved, files }
end
stop_waiting(base, id)
redis.call("HSET", file_key(base, id), "expires_ms", now_ms + ttl_ms, unpack(ARGV, 9))
redis.call("PEXPIRE", file_key(base, id), ttl_ms + GRACE_MS)
local name, consumers = unpack(redis.call("HMGET", file_key(base, id), "name", "consumers"))
redis.call("HSET", sizes, id, table.concat({ bytes .. " " .. chunks, name, consumers }, "\n"))
redis.call("SET", base .. ":limit", ARGV[4], "KEEPTTL")
redis.call("ZADD", deadlines, now_ms + lease_ms, id)
redis.call("INCRBY", base .. ":bytes", bytes)
for _, kept in ipairs({ sizes, deadlines, base .. ":bytes", base .. ":limit" }) do
  extend(kept, ttl_ms + lease_ms + 2 * GRACE_MS)
end
notify_waiter(base, now_ms)
return { 1, 0, 0 }
