-- Wake a connected waiter if a hand-off went to one that is not connected. Called after a release that handed off.
-- Precondition: none.
-- KEYS[1] base  none: prefix of the queue's keys
-- ARGV[1] handoff_ms  milliseconds for which the wakeup stays
-- DERIVED <base>:handoffs, <base>:wakeup, <base>:wakeup:<token>
-- Returns 1: a waiter was woken
-- Returns 0: all hand-offs are taken, or were read
-- Cost: O(hand-offs)
local base = KEYS[1]
local handoff_ms = tonumber(ARGV[1])
-- @include confirm_handoffs

return confirm_handoffs(base, handoff_ms)
