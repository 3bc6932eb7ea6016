-- For a waiter that was interrupted: leaves the line, and gives back what it was just granted.
-- Precondition: none.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] queue  zset: waiting permit -> ticket
-- KEYS[3] alive  zset: waiting permit -> server time in ms at which it counts as dead
-- KEYS[4] limit  string: the limit that was set for all
-- ARGV[1] permit  text: <id>:<count>:<limit>
-- ARGV[2] handoff_ms  milliseconds of the leases that those in line get
-- DERIVED <holders>:bell:<permit>
-- Returns 1: it waited, or held a permit
-- Returns 0: it did neither
-- Cost: O(log permits) for each permit that is given back, granted, or found expired
local base, holders, queue, alive = KEYS[1], KEYS[1], KEYS[2], KEYS[3]
local limit = KEYS[4]
local permit, handoff_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
-- @include turns
-- @include permits
-- @include serve
-- @include give_back

local waited = redis.call("ZSCORE", queue, permit)
leave(permit)
redis.call("DEL", base .. ":bell:" .. permit)
local held = give_back(permit)
serve(nil)
return (waited or held == 1) and 1 or 0
