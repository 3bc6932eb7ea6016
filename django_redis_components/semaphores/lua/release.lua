-- Gives a permit back and grants what became free to those in line.
-- Precondition: none; a permit that is not held changes nothing.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] queue  zset: waiting permit -> ticket
-- KEYS[3] alive  zset: waiting permit -> server time in ms at which it counts as dead
-- KEYS[4] limit  string: the limit that was set for all
-- ARGV[1] permit  text: <id>:<count>:<limit>
-- ARGV[2] handoff_ms  milliseconds of the leases that those in line get
-- DERIVED <holders>:bell:<permit>
-- Returns 1: given back
-- Returns 0: not held; it had expired
-- Cost: O(log permits) for each permit that is given back, granted, or found expired
local base, holders, queue, alive = KEYS[1], KEYS[1], KEYS[2], KEYS[3]
local limit = KEYS[4]
local permit, handoff_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include permits
-- @include give_back

local held = give_back(permit)
-- Nobody waits: the common case, with nothing else to do.
if redis.call("EXISTS", queue) == 0 then
  return held
end
-- @include turns
-- @include serve

serve(nil)
return held
