-- Release a permit and grant the free permits to waiters.
-- Precondition: none; a permit that is not held changes nothing.
-- KEYS[1] holders  zset: held permit -> server time in ms at which it expires
-- KEYS[2] queue  zset: waiting permit -> ticket
-- KEYS[3] limit  string: the limit that was set for all
-- ARGV[1] permit  text: <id>:<count>:<limit>
-- ARGV[2] released_by  text: the operator of a forced release; empty: the holder releases it
-- ARGV[3] handoff_ms  milliseconds of the leases that waiters get
-- DERIVED <holders>:asked, <holders>:paused, <holders>:handoffs, <holders>:probes, <holders>:wakeup
-- DERIVED <holders>:wakeup:<permit>, <holders>:holder:<permit>
-- Returns 2: released and handed off while others wait: `confirm` must follow
-- Returns 1: released
-- Returns 0: not held; it had expired
-- Cost: O(log permits) for each permit that is released, granted, or found expired
local holders, queue, limit = KEYS[1], KEYS[2], KEYS[3]
local permit, released_by, handoff_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]

redis.call("ZREMRANGEBYSCORE", holders, "-inf", math.floor(now_us / 1000))
local held = redis.call("ZREM", holders, permit)
for number = 2, tonumber(string.match(permit, ":(%d+):%d+$")) do
  redis.call("ZREM", holders, permit .. "#" .. number)
end
if released_by == "" then
  if held == 1 then
    redis.call("DEL", holders .. ":holder:" .. permit)
  end
  -- No waiter: the common case, with nothing else to do.
  if redis.call("EXISTS", queue) == 0 then
    return held
  end
end
-- @include permits
-- @include permit_queue
-- @include holder

if released_by ~= "" and held == 1 then
  mark_released(holders, permit, released_by)
end
local waiters = open_permit_queue(open_permits(holders, limit, now_us, queue, handoff_ms))
serve(waiters)
if held == 0 then
  watch_handoffs(waiters)
  return 0
end
return waiters.has_offered and redis.call("EXISTS", queue) == 1 and 2 or 1
