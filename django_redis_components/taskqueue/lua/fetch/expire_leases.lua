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

local ctx = new_context(base)
local running = queue_key(ctx, queue, P.running)
local ids = redis.call("ZRANGE", running, offset, offset + limit - 1)
local expired = false
for _, id in ipairs(ids) do
  local token, state = unpack(redis.call("HMGET", task_key(ctx, id), F.lease, F.state))
  if token and state == S.running and string.match(token, "^[^/]*") == worker then
    redis.call("ZADD", running, 0, id) -- see the legend
    expired = true
  end
end
if expired then
  notify(ctx, "poller")
end
return #ids
