-- Add the views that a process has buffered, unless this batch was added before.
-- Precondition: names are truncated; batches of a process are sent one after the other.
-- KEYS[1] last  string: number of the last batch of the process that was added
-- KEYS[2..] counters  zset: name to views; the member "" is the sum of all
-- ARGV[1] number  number of this batch
-- ARGV[2] last_ms  milliseconds, TTL of last
-- ARGV[3..] parts  for each counter: milliseconds, TTL from this write on; maximum names; number of pairs; the pairs
-- Returns 1: added
-- Returns 0: added before
-- Cost: O(n log m) in the pairs and the names of the counters
-- @include count_members
local last = KEYS[1]
local number, last_ms = tonumber(ARGV[1]), ARGV[2]
if tonumber(redis.call("GET", last) or "0") >= number then
  return 0
end
local position = 3
for counter = 2, #KEYS do
  local pairs_end = position + 2 + 2 * ARGV[position + 2]
  local names = {}
  for index = position + 3, pairs_end do
    names[#names + 1] = ARGV[index]
  end
  count_members(KEYS[counter], ARGV[position], tonumber(ARGV[position + 1]), names)
  position = pairs_end + 1
end
redis.call("SET", last, number, "PX", last_ms)
return 1
