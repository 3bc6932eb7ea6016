-- Read a value; without one, take the lease to compute it, or register as a waiter if another caller has the lease.
-- A value may be recomputed early (XFetch): more likely the nearer its expiry and the longer its computation took.
-- Precondition: none. The holder of the lease gets the same reply again: a repetition after a lost reply. A token that
-- ABANDON has cancelled takes no lease, also if its request arrives later.
-- KEYS[1] value  hash: body, compute_ms (duration of the computation), until_ms (expiry, server time)
-- KEYS[2] lease  hash: token of the holder, until_ms (end of the lease, server time), waiters
-- ARGV[1] token  text
-- ARGV[2] lease_ms  milliseconds, length of the lease
-- ARGV[3] eagerness  exponentially distributed random number, as text; empty: never early
-- DERIVED <lease>:cancelled:<token>
-- Returns {1, body}: found
-- Returns {2, body}: found; the caller has the lease and computes the next value
-- Returns {3, ""}: missing; the caller has the lease and computes it
-- Returns {0, token, ms}: missing; the holder with that token computes it: retry after its wakeup or ms milliseconds
-- Returns {0, "", 0}: missing; the caller is cancelled
-- Cost: O(1) and the size of the body
local value, lease = KEYS[1], KEYS[2]
local token, lease_ms, eagerness = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local body, compute_ms, until_ms = unpack(redis.call("HMGET", value, "body", "compute_ms", "until_ms"))
if body and not (eagerness and now_ms + compute_ms * eagerness >= tonumber(until_ms)) then
  return { 1, body }
end
if redis.call("EXISTS", lease .. ":cancelled:" .. token) == 1 then
  return { 0, "", 0 }
end
local holder, lease_until_ms = unpack(redis.call("HMGET", lease, "token", "until_ms"))
local left_ms = (tonumber(lease_until_ms) or 0) - now_ms
-- A lease that has much longer left than it lasts is from before the server's clock was set back: its holder may be dead.
if holder and holder ~= token and left_ms > 0 and left_ms <= 2 * lease_ms then
  if body then
    return { 1, body }
  end
  redis.call("HINCRBY", lease, "waiters", 1)
  return { 0, holder, left_ms }
end
if holder ~= token then
  redis.call("DEL", lease)
end
redis.call("HSET", lease, "token", token, "until_ms", now_ms + lease_ms)
-- The record outlives the lease: a late holder may still store its value if no other caller has taken the lease.
redis.call("PEXPIRE", lease, lease_ms * 10)
return { body and 2 or 3, body or "" }
