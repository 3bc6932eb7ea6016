-- Count the union of HyperLogLogs that the client has read (on Cluster their keys may be in other slots).
-- Precondition: scratch and part are not used otherwise; the script deletes them.
-- KEYS[1] scratch  string: HyperLogLog
-- KEYS[2] part  string: HyperLogLog
-- ARGV[1..] sketches  strings that merge.lua returned
-- Returns 0 or above: visitors in the union
-- Cost: O(n) in the sketches
local scratch, part = KEYS[1], KEYS[2]
redis.call("UNLINK", scratch)
for _, sketch in ipairs(ARGV) do
  redis.call("SET", part, sketch)
  redis.call("PFMERGE", scratch, part)
end
local visitors = redis.call("PFCOUNT", scratch)
redis.call("UNLINK", scratch, part)
return visitors
