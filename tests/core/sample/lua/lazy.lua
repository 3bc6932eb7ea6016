-- Increment the counter once for each amount, by functions that exist from the first use on.
-- @lazy steps: increment
-- @include steps_again
if #ARGV == 0 then
  return { 0, steps_functions == nil and 1 or 0 }
end
local total
for _, amount in ipairs(ARGV) do
  total = steps().increment(KEYS[1], amount)
end
redis.call("HSET", KEYS[1], F.last_amount, ARGV[#ARGV])
redis.call("PEXPIRE", KEYS[1], T.counter_ms)
return { total, twice(answer()) }
