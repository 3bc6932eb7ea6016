-- End the leases of a worker whose process has exited, among a range of the running tasks of a queue, and notify the
-- poller: it recovers these tasks at once.
-- Precondition: the process has exited. A call of it that the server executes later leases its tasks as always.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] worker  id
-- ARGV[2] queue  name
-- ARGV[3] offset  how many running tasks are passed over
-- ARGV[4] limit  how many are examined
-- DERIVED base:q:<queue>:running zset, base:t:<id> hash, base:wakeup:* zset
-- Returns how many were examined
-- Cost: O(limit) times O(log n)
local base = KEYS[1]
local worker = ARGV[1]
local queue = ARGV[2]
local offset = tonumber(ARGV[3])
local limit = tonumber(ARGV[4])
-- @include wakeups
-- @include worker_leases

local ctx = new_context(base)
local examined, leases = find_leases(ctx, queue, worker, offset, limit)
for _, lease in ipairs(leases) do
  redis.call("ZADD", queue_key(ctx, queue, P.running), 0, lease[1]) -- see the legend
end
if #leases > 0 then
  notify(ctx, "poller")
end
return examined
