-- Makes the lease on several names last at least so long from now. Never shortens it, so a late repetition
-- does no harm.
-- Precondition: none.
-- KEYS[1..] held  string: the holder's token
-- ARGV[1] token  text
-- ARGV[2] ttl_ms  milliseconds
-- Returns 1: all are ours, and last that long
-- Returns 0: not all are held by this token; nothing was changed
-- Cost: O(names)
local token, ttl_ms = ARGV[1], ARGV[2]

for _, held in ipairs(KEYS) do
  if redis.call("GET", held) ~= token then
    return 0
  end
end
for _, held in ipairs(KEYS) do
  redis.call("PEXPIRE", held, ttl_ms, "GT")
end
return 1
