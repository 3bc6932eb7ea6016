-- Adds all arguments to all keys.
local sums = {}
for at, key in ipairs(KEYS) do
  for _, by in ipairs(ARGV) do
    sums[at] = redis.call("INCRBY", key, by)
  end
  redis.call("PEXPIRE", key, 60000)
end
return sums
