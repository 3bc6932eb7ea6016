-- Set the limit of the bytes of a channel, if it has files, and wake the producer that waits longest.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the channel
-- DERIVED base:limit base:sizes base:waiting base:waiting_until base:room:<id>
-- ARGV[1] limit  bytes of the channel
-- Returns 1: set
-- Returns 0: the channel is empty: the next producer sets it
-- Cost: O(1) and the producers that died while they waited
-- @include channel
local base = KEYS[1]
local limit = ARGV[1]

local left_ms = redis.call("PTTL", base .. ":sizes")
if left_ms < 0 then
  return 0
end
local now_ms = read_clock()
redis.call("SET", base .. ":limit", limit, "PX", left_ms)
notify_waiter(base, now_ms)
return 1
