-- Writes, then fails.
redis.call("INCR", KEYS[1])
return redis.error_reply("BROKEN on purpose")
