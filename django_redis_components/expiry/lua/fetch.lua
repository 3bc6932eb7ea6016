-- Reads a value; or takes the computing of it on, if nobody does; or a place among those who wait for it.
-- A value may be found to be due early (XFetch): the closer its end and the longer it takes, the likelier.
-- Precondition: none. The token that computes already is told so again: a repetition after a lost reply. A token whose
-- caller was interrupted takes nothing, also when its request arrives after ABANDON.
-- KEYS[1] value  hash: body, delta_ms (how long computing took), until_ms (server time of its end)
-- KEYS[2] flight  hash: token of who computes, until_ms (server time to which others wait), waiters
-- ARGV[1] token  text
-- ARGV[2] lease_ms  milliseconds that others wait for this one
-- ARGV[3] eagerness  exponential random number, as text; empty: never early
-- DERIVED <flight>:void:<token>
-- Returns {1, body}: here it is
-- Returns {2, body}: here it is, and you compute the next one
-- Returns {3, ""}: there is none, and you compute it
-- Returns {0, token, n}: there is none, and that token computes it; ask again after its bell or n milliseconds
-- Returns {0, "", 0}: there is none, and the caller has given up
-- Cost: O(1) and the size of the body
local value, flight = KEYS[1], KEYS[2]
local token, lease_ms, eagerness = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local body, delta_ms, until_ms = unpack(redis.call("HMGET", value, "body", "delta_ms", "until_ms"))
if body and not (eagerness and now_ms + delta_ms * eagerness >= tonumber(until_ms)) then
  return { 1, body }
end
if redis.call("EXISTS", flight .. ":void:" .. token) == 1 then
  return { 0, "", 0 }
end
local holder, overdue_ms = unpack(redis.call("HMGET", flight, "token", "until_ms"))
if holder and holder ~= token and tonumber(overdue_ms) > now_ms then
  if body then
    return { 1, body }
  end
  redis.call("HINCRBY", flight, "waiters", 1)
  return { 0, holder, overdue_ms - now_ms }
end
if holder ~= token then
  redis.call("DEL", flight)
end
redis.call("HSET", flight, "token", token, "until_ms", now_ms + lease_ms)
-- Late is better than never: who computes longer than its lease may still store, if nobody else began.
redis.call("PEXPIRE", flight, lease_ms * 10)
return { body and 2 or 3, body or "" }
