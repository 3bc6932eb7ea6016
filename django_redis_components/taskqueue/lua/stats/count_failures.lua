-- Count the failed tasks that are kept, and the lost workers. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] lease_ms  duration of a lease: a worker without a heartbeat for so long is lost
-- ARGV[2] limit  most queues whose failed tasks are counted
-- DERIVED base:queues, :workers zsets, base:q:<queue>:failed zset
-- Returns {failed, queues, lost}: failed is a flat list of queues with their numbers of failed tasks, without those that
--         have none; queues is how many queues are known, of which the first `limit` are counted; lost is how many of the
--         workers of the last ten minutes have sent no heartbeat for the duration of a lease
-- Cost: O(queues), `limit` at most
local base = KEYS[1]
local lease_ms = tonumber(ARGV[1])
local limit = tonumber(ARGV[2])
-- @include context

local ctx = new_context(base)
local queues, failed = base_key(ctx, K.queues), {}
for _, queue in ipairs(redis.call("ZRANGE", queues, 0, limit - 1)) do
  local count = redis.call("ZCARD", queue_key(ctx, queue, P.failed))
  if count > 0 then
    failed[#failed + 1] = queue
    failed[#failed + 1] = count
  end
end
local oldest_ms = string.format("(%.0f", ctx.now_ms - lease_ms)
return { failed, redis.call("ZCARD", queues), redis.call("ZCOUNT", base_key(ctx, K.workers), "-inf", oldest_ms) }
