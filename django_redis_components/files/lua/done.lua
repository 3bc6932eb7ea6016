-- Mark a file as done by a consumer; remove the file when all of its consumers are done.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the channel
-- DERIVED base:bytes base:limit base:sizes base:deadlines base:waiting base:waiting_until base:room:<id> base:file:<id>
-- DERIVED base:file:<id>:<number> base:file:<id>:done base:pending:<consumer> base:wakeup:<consumer>
-- ARGV[1] id  of the file
-- ARGV[2] consumer  name
-- Returns 1: marked, now or before
-- Returns 2: it was the last consumer: the file is removed
-- Returns 0: there is no such file
-- Cost: O(1); O(chunks) for the last consumer
-- @include channel
local base = KEYS[1]
local id, consumer = ARGV[1], ARGV[2]

local now_ms = read_clock()
local key, pending = file_key(base, id), pending_key(base, consumer)
local expires_ms, names = unpack(redis.call("HMGET", key, "expires_ms", "consumers"))
redis.call("ZREM", pending, id)
if redis.call("EXISTS", pending) == 0 then
  redis.call("UNLINK", consumer_wakeup(base, consumer))
end
if not expires_ms then
  return 0
end
local consumers, is_named = consumers_of(names), false
for _, name in ipairs(consumers) do
  is_named = is_named or name == consumer
end
if not is_named then
  return 1
end
redis.call("SADD", key .. ":done", consumer)
redis.call("PEXPIREAT", key .. ":done", expires_ms + GRACE_MS)
if redis.call("SCARD", key .. ":done") < #consumers then
  return 1
end
remove_file(base, id, now_ms)
return 2
