-- Sets a key and counts in a second one how often that was done.
-- @include limits
local value, counter = ARGV[1], KEYS[2]
redis.call("SET", KEYS[1], value, "PX", LIFE_MS)
local times = redis.call("INCR", counter)
redis.call("PEXPIRE", counter, LIFE_MS)
return { times, answer() }
