-- Say that a user is present for some time.
-- Precondition: none.
-- KEYS[1] presence  zset: user -> end in milliseconds
-- ARGV[1] user  text
-- ARGV[2] ttl_ms  milliseconds
-- ARGV[3] max_users  users; those that end first go
-- Returns 1: done
-- Cost: O(log N) for N users
local presence = KEYS[1]
local user, ttl_ms, max_users = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local now = redis.call("TIME")
local now_ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
redis.call("ZREMRANGEBYSCORE", presence, "-inf", now_ms)
redis.call("ZADD", presence, now_ms + ttl_ms, user)
redis.call("ZREMRANGEBYRANK", presence, 0, -max_users - 1)
redis.call("PEXPIRE", presence, ttl_ms, "NX")
redis.call("PEXPIRE", presence, ttl_ms, "GT")
return 1
