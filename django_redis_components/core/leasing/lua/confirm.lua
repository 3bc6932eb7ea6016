-- Wake a connected waiter if a hand-off went to one that is not connected: its wakeup is unread. Called after a release
-- that handed off.
-- Precondition: none.
-- KEYS[1] base  none: prefix of the queue's keys
-- ARGV[1] handoff_ms  milliseconds for which the wakeup stays
-- DERIVED <base>:handoffs, <base>:wakeup, <base>:wakeup:<token>
-- Returns 1: a waiter was woken
-- Returns 0: all hand-offs are accepted, or their wakeups were read
-- Cost: O(hand-offs)
local base = KEYS[1]
local handoff_ms = tonumber(ARGV[1])
-- @include wakeup

for _, token in ipairs(redis.call("ZRANGE", base .. ":handoffs", 0, 999)) do
  if redis.call("LLEN", wakeup_of(base, token)) > 0 then
    notify(shared_wakeup(base), handoff_ms)
    return 1
  end
end
return 0
