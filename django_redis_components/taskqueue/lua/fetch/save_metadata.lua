-- Save what a running task states about itself.
-- Precondition: none.
-- KEYS[1] record  hash
-- ARGV[1] token  of the lease under which the task runs
-- ARGV[2] metadata  JSON, opaque
-- ARGV[3] cursor  where the task continues, opaque; empty: it stays
-- Returns 1: saved
-- Returns 0: the task is not leased under this token any more
-- Cost: O(1)
local record = KEYS[1]
local token = ARGV[1]
local metadata = ARGV[2]
local cursor = ARGV[3]

local lease, state = unpack(redis.call("HMGET", record, F.lease, F.state))
if lease ~= token or state ~= S.running then
  return 0
end
redis.call("HSET", record, F.metadata, metadata)
if cursor ~= "" then
  redis.call("HSET", record, F.cursor, cursor)
end
return 1
