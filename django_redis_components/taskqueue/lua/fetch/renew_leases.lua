-- Record a supervisor's heartbeat for one child, renew the child's leases, and read the commands to the supervisor.
-- Precondition: the caller has seen that the child is alive.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] worker  id
-- ARGV[2] lease_ms  duration of a lease from now on
-- ARGV[3] info  JSON about the worker, for the dashboard, with the names of its queues
-- ARGV[4] supervisor  id; empty: no commands are read
-- ARGV[5] executed  ids of the commands that it has executed, between spaces; they are removed
-- ARGV[6..] leases  pairs of task id and lease token
-- DERIVED base:contact hash, base:deploys, :versions zsets, base:workers zset, base:worker:<worker> string, base:t:<id> hash,
--         base:q:<queue>:running, :workers zsets, base:commands:<supervisor> list
-- Returns {ids of expired leases, cancellations, commands, fleet}: fleet is the number of worker processes; of each task whose cancellation was requested the id, and
--         the milliseconds until its run is ended by force; commands that were not executed, as `Key.commands` states
-- Cost: O(leases + queues) times O(log n)
local base = KEYS[1]
local worker = ARGV[1]
local lease_ms = tonumber(ARGV[2])
local info = ARGV[3]
local supervisor = ARGV[4]
local executed = ARGV[5]
-- @include contact
-- @include commands
-- @include deploys

local ctx = new_context(base)
record_contact(ctx, lease_ms, #ARGV == 5)
redis.call("ZADD", base_key(ctx, K.workers), ctx.now_ms, worker)
redis.call("SET", base_key(ctx, K.worker, worker), info, "PX", lease_ms * 40)
local report = cjson.decode(info)
record_version(ctx, worker, report.version)
for _, queue in ipairs(report.queues or {}) do
  local serving = queue_key(ctx, queue, P.workers)
  redis.call("ZADD", serving, ctx.now_ms, worker)
  redis.call("PEXPIRE", serving, T.worker_ms)
end
local expired, cancellations = {}, {}
for index = 6, #ARGV, 2 do
  local id, token = ARGV[index], ARGV[index + 1]
  local lease, state, queue, cancel_request = unpack(redis.call("HMGET", task_key(ctx, id),
    F.lease, F.state, F.queue, F.cancel_request))
  if lease == token and state == S.running then
    redis.call("ZADD", queue_key(ctx, queue, P.running), "XX", ctx.now_ms + lease_ms, id)
    if cancel_request then
      cancellations[#cancellations + 1] = id
      cancellations[#cancellations + 1] = math.max(0, tonumber(string.match(cancel_request, "^%d+")) - ctx.now_ms)
    end
  else
    expired[#expired + 1] = id
  end
end
local commands = supervisor ~= "" and remove_executed(ctx, supervisor, executed) or {}
return { expired, cancellations, commands, redis.call("ZCARD", base_key(ctx, K.workers)) }
