-- Grant a lease, unless other holders exclude it or a waiter is before the caller in a queue. A token that has a lease is
-- granted again: a repetition after a lost reply, whose lease is only extended, or the acceptance of a hand-off.
-- Precondition: the token and the options are of the form that the kind describes.
-- KEYS[1] base  of the kind
-- KEYS[2] queue  zset: waiting token -> ticket; of a group the hash of what each token wants
-- ARGV[1] token  text
-- ARGV[2] description  text that describes the caller
-- ARGV[3] ttl_ms  milliseconds of the lease
-- ARGV[4] wait  1: take a place in the queue when refused; 0: leave it
-- ARGV[5] handoff_ms  milliseconds of a lease that is handed to another
-- ARGV[6] options  text: see the kind
-- DERIVED <base>:asked, <base>:paused, <base>:handoffs, <base>:probes, <base>:wakeup, <base>:wakeup:<token>
-- DERIVED <base>:holder:<token>, and those of the kind
-- Returns {n, 0}: n above 0, granted under the number n
-- Returns {0, n, m}: refused; ask again within n milliseconds (0 without waiting); at most m leases exist at once
-- Returns {-1, 0, m}: refused for good, because it counts for more than m
-- Cost: that of the kind, plus O(log waiters) for each waiter that is probed, passed over or granted
local base, queue = KEYS[1], KEYS[2]
local token, description, ttl_ms, wait = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == "1"
local handoff_ms, options = ARGV[5], ARGV[6]
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include kind: grant
local ctx = { base = base, token = token, options = options, now_us = now_us }

-- No waiter and no hand-off: the common case, with nothing else to do. SET has GET, whose reply is nil: the table of a
-- status reply takes as long as a command.
local is_uncontended = redis.call("EXISTS", queue, base .. ":handoffs") == 0
local number = is_uncontended and grant(ctx, token, ttl_ms)
if number then
  redis.call("SET", base .. ":holder:" .. token, description, "PX", ttl_ms, "GET")
  return { number, 0 }
end
-- @include kind: left_ms, limit_of, expire
ctx.queue, ctx.handoff_ms = queue, handoff_ms
local has_expired = expire(ctx)
local remaining_ms, is_partial = left_ms(ctx, token)
local limit, is_excessive = limit_of(ctx, token)
if is_uncontended and not (wait or has_expired or remaining_ms or is_partial) then
  return { is_excessive and -1 or 0, 0, limit }
end
-- @include review
-- @include holder

local waiters = open_waiters(ctx)
if remaining_ms then
  local lease_ms = accept_handoff(waiters, token) and ttl_ms or math.max(remaining_ms, ttl_ms)
  describe(base, token, description, lease_ms)
  return { renew(ctx, token, lease_ms), 0 }
end
if not is_excessive then
  join(waiters, token)
  review(waiters)
  number = serve(waiters, token, ttl_ms)
end
if number then
  describe(base, token, description, ttl_ms)
  watch_handoffs(waiters)
  return { number, 0 }
end
if is_excessive or not wait then
  leave(waiters, token)
  serve(waiters) -- the caller may have been before waiters that can be granted
  watch_handoffs(waiters)
  return { is_excessive and -1 or 0, 0, limit }
end
return { 0, ask_again_ms(waiters, token, wait_ms(ctx)), limit }
