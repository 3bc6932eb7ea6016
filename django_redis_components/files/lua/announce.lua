-- Announce a published file to its consumers, in the order of the calls.
-- Precondition: all chunks are written.
-- KEYS[1] base  prefix of the keys of the channel
-- DERIVED base:bytes base:limit base:sizes base:deadlines base:waiting base:waiting_until base:room:<id> base:file:<id>
-- DERIVED base:file:<id>:<number> base:pending:<consumer> base:wakeup:<consumer>
-- ARGV[1] id  of the file, by which the call is idempotent
-- ARGV[2] sha256  of the file, hexadecimal
-- Returns 1: announced, now or by a call whose reply was lost
-- Returns -1: there is no such file: it was removed, or all consumers are done already
-- Returns -2: its ttl has ended: it is removed
-- Cost: O(consumers); O(chunks) if its ttl has ended
-- @include channel
local base = KEYS[1]
local id, sha256 = ARGV[1], ARGV[2]

local now_ms, now_us = read_clock()
local key = file_key(base, id)
local state, expires_ms, names = unpack(redis.call("HMGET", key, "state", "expires_ms", "consumers"))
if not state then
  return -1
end
if state == "ready" then
  return 1
end
if tonumber(expires_ms) <= now_ms then
  remove_file(base, id, now_ms)
  return -2
end
-- The order is the time, or later than that of every pending file, because the clock may step back.
local order, consumers = tonumber(now_us), consumers_of(names)
for _, consumer in ipairs(consumers) do
  local last = redis.call("ZRANGE", pending_key(base, consumer), -1, -1, "WITHSCORES")
  order = math.max(order, tonumber(last[2] or 0) + 1)
end
redis.call("HSET", key, "state", "ready", "sha256", sha256, "published_ms", now_ms)
redis.call("ZADD", base .. ":deadlines", expires_ms, id)
for _, consumer in ipairs(consumers) do
  redis.call("ZADD", pending_key(base, consumer), string.format("%.0f", order), id)
  extend(pending_key(base, consumer), expires_ms - now_ms + GRACE_MS)
  notify(consumer_wakeup(base, consumer), WAKEUP_MS)
end
return 1
