-- Resume a queue, and let its workers hear of it.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] op  id of the operation, new for each
-- DERIVED base:paused hash, base:bell:* zset, base:op:<op> string
-- Returns {1}: it was paused
-- Returns {0}: it was not
-- Cost: O(1)
local base = KEYS[1]
local queue = ARGV[1]
local op = ARGV[2]
-- @include places
-- @include once

local before = answered()
if before then
    return before
end
local pause = redis.call("HGET", base .. ":paused", queue)
if not pause then
    return answer_with({ 0 })
end
local was = has_ended(pause) and 0 or 1
redis.call("HDEL", base .. ":paused", queue)
ring("q:" .. queue)
return answer_with({ was })
