-- Follows a release that handed off: wakes a connected waiter if the hand-off went to one that is not.
-- Precondition: none.
-- KEYS[1] base  none: what the keys of the queue begin with
-- ARGV[1] handoff_ms  milliseconds for which the wakeup stays
-- DERIVED <base>:handoffs, <base>:wakeup, <base>:wakeup:<token>
-- Returns 1: a waiter was woken
-- Returns 0: all hand-offs are taken, or were read
-- Cost: O(hand-offs)
local base = KEYS[1]
local handoff_ms = tonumber(ARGV[1])
-- @include confirm_handoffs

return confirm_handoffs(base, handoff_ms)
