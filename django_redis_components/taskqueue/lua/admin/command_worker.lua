-- Store a command for a worker process, or for all processes of a supervisor, and wake the supervisor. It reads the
-- command in the round trip of its next heartbeat.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] target  id of the worker or of the supervisor
-- ARGV[2] verb  quiet, resume, restart, stop, reset, "stack/<task>" or "pool/<change>"
-- ARGV[3] op  id of the operation, new for each
-- ARGV[4] author  who requested it
-- ARGV[5] lease_ms  duration of a lease: a worker without a heartbeat for so long is lost
-- DERIVED base:workers zset, base:commands:<supervisor> list, base:wakeup:* zset, base:reply:<op> string
-- Returns {1}: stored
-- Returns {0}: no such worker or supervisor
-- Returns {-1}: it is lost
-- Returns {-2}: too many commands wait for it
-- Cost: O(workers) for a supervisor, at most 5,000; else O(1)
local base = KEYS[1]
local target = ARGV[1]
local verb = ARGV[2]
local op = ARGV[3]
local author = ARGV[4]
local lease_ms = tonumber(ARGV[5])
-- @include wakeups
-- @include idempotency
-- @include commands

local ctx = new_context(base)

-- Return the latest heartbeat of any worker of a supervisor in ms; nil without any.
local function latest_heartbeat(supervisor)
  local heartbeats = redis.call("ZREVRANGE", base_key(ctx, K.workers), 0, 4999, "WITHSCORES")
  for index = 1, #heartbeats, 2 do
    if string.match(heartbeats[index], "^(.*)%.[^.]*$") == supervisor then
      return heartbeats[index + 1]
    end
  end
end

local earlier_reply = stored_reply(ctx, op)
if earlier_reply then
  return earlier_reply
end
local seen_ms, supervisor = redis.call("ZSCORE", base_key(ctx, K.workers), target), target
if seen_ms then
  supervisor = string.match(target, "^(.*)%.[^.]*$") or target
else
  seen_ms = latest_heartbeat(target)
end
if not seen_ms then
  return { 0 }
end
if tonumber(seen_ms) < ctx.now_ms - lease_ms then
  return { -1 }
end
local key = base_key(ctx, K.commands, supervisor)
if #remove_executed(ctx, supervisor, "") >= MAX_COMMANDS then
  return { -2 }
end
redis.call("RPUSH", key, string.format("%.0f %.0f %s %s %s %s", ctx.now_ms + T.command_ms, ctx.now_ms, op, verb, target,
  author))
redis.call("PEXPIRE", key, T.command_ms)
notify(ctx, "s:" .. supervisor)
return reply(ctx, op, { 1 })
