-- Start a new generation beside the one that is read.
-- Precondition: the token is new.
-- KEYS[1] root  prefix of the keys of the index
-- DERIVED root:state root:build root:dropping, and of each generation root:<number>: docs vocabulary
-- ARGV[1] token  opaque
-- ARGV[2] ttl_ms  milliseconds after which the rebuild expires without a further step
-- ARGV[3] data_ttl_ms  milliseconds after which its data expire
-- Returns 1: started, now or by a call whose reply was lost
-- Cost: O(1)
local root = KEYS[1]
local token, ttl_ms, data_ttl_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
-- @include clock
-- @include rebuild
-- @include generations
local clock = {}

read_clock(clock)
if begin_rebuild(root .. ":build", token, ttl_ms) then
  discard_building(root)
  redis.call("HSET", root .. ":state", "building", new_number(root), "until", string.format("%.0f", clock.now_ms + data_ttl_ms))
end
return 1
