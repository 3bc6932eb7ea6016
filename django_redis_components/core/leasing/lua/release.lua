-- Release the lease of a token, and grant the freed capacity to the first waiters.
-- Precondition: none; a token without a lease changes nothing, but that what has expired is granted to waiters.
-- KEYS[1] base  of the kind
-- KEYS[2] queue  zset: waiting token -> ticket; of a group the hash of what each token wants
-- ARGV[1] token  text
-- ARGV[2] released_by  text: the operator of a forced release; empty: the holder releases it
-- ARGV[3] handoff_ms  milliseconds of the leases that waiters get
-- ARGV[4] options  text: see the kind
-- DERIVED <base>:asked, <base>:paused, <base>:handoffs, <base>:probes, <base>:wakeup, <base>:wakeup:<token>
-- DERIVED <base>:holder:<token>, and those of the kind
-- Returns 2: released and handed off while others wait: `confirm` must follow
-- Returns 1: released
-- Returns 0: this token had no lease, or of a group not all of the names; those that it had are released
-- Cost: that of the kind, plus O(log waiters) for each waiter that is passed over or granted
local base, queue = KEYS[1], KEYS[2]
local token, released_by, handoff_ms, options = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- @include kind: revoke
local ctx = { base = base, token = token, options = options, now_us = nil, now_ms = nil } -- with room for the clock

local is_released, is_changed = revoke(ctx, token, released_by == "" and base .. ":holder:" .. token)
if not is_changed then
  return 0
end
-- No waiter: the common case, with nothing else to do.
if released_by == "" and redis.call("EXISTS", queue) == 0 then
  return is_released and 1 or 0
end
ctx.queue, ctx.handoff_ms = queue, handoff_ms
-- @include wait_queue
-- @include holder

if released_by ~= "" and is_released then
  mark_released(base, token, released_by)
end
local waiters = open_waiters(ctx)
serve(waiters)
if not is_released then
  watch_handoffs(waiters)
  return 0
end
return waiters.has_offered and redis.call("EXISTS", queue) == 1 and 2 or 1
