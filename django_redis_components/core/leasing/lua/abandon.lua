-- Leave the queues without waiting any longer, and pass on what was just granted.
-- Precondition: none.
-- KEYS[1] base  of the kind
-- KEYS[2] queue  zset: waiting token -> ticket; of a group the hash of what each token wants
-- ARGV[1] token  text
-- ARGV[2] handoff_ms  milliseconds of the leases that waiters get
-- ARGV[3] options  text: see the kind
-- DERIVED <base>:asked, <base>:paused, <base>:handoffs, <base>:probes, <base>:wakeup, <base>:wakeup:<token>
-- DERIVED <base>:holder:<token>, and those of the kind
-- Returns 1: it waited, or had a lease
-- Returns 0: it did neither
-- Cost: that of the kind, plus O(log waiters) for each waiter that is probed, passed over or granted
local base, queue = KEYS[1], KEYS[2]
local token, handoff_ms, options = ARGV[1], ARGV[2], ARGV[3]
-- @include review
-- @include holder

local ctx = { base = base, queue = queue, token = token, options = options, handoff_ms = handoff_ms }
local waiters = open_waiters(ctx)
local has_waited = leave(waiters, token)
local remaining_ms, is_partial = left_ms(ctx, token)
redis.call("DEL", wakeup_of(base, token), holder_of(base, token))
revoke(ctx, token)
review(waiters) -- the caller may have read the shared wakeup, by which another waiter was to do this
serve(waiters)
watch_handoffs(waiters)
return (has_waited or remaining_ms or is_partial) and 1 or 0
