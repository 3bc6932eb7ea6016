-- Lease tasks that were leased before or have waited for a limit, and scheduled tasks that are due. Part of lease.lua.
-- @include lease
-- @lazy rare: holds_back
-- @lazy turns: lease_in_turns

-- Crash suspects: tasks whose workers have died (field deliveries: how many). Each is leased alone in a call; one that
-- has one death left, or has seen two, only while its worker process runs no other such task. Otherwise a crash would
-- count for the same neighbors again and again.
local MANY_DEATHS = 2
-- Most suspects that one call sets aside to look behind them.
local MAX_ASIDE = 10

-- Return whether the worker runs a crash suspect that must run alone.
local function is_in_quarantine(ctx)
  local id = redis.call("GET", base_key(ctx, K.quarantine, ctx.worker))
  if not id then
    return false
  end
  local state, token = unpack(redis.call("HMGET", task_key(ctx, id), F.state, F.lease))
  return state == S.running and string.sub(token, 1, #ctx.worker + 1) == ctx.worker .. "/"
end

-- Lease tasks of the requeued list. After a suspect the call takes no more.
local function lease_requeued(ctx, queue)
  local requeued, aside = queue_key(ctx, queue, P.requeued), {}
  while wants_more(ctx) and #aside < MAX_ASIDE do
    local id = redis.call("LPOP", requeued)
    if not id then
      break
    end
    local deliveries, max_deliveries, share = unpack(redis.call("HMGET", task_key(ctx, id),
      F.deliveries, F.max_deliveries, F.fair_share))
    local deaths = tonumber(deliveries or 0)
    local must_run_alone = deaths >= math.min(MANY_DEATHS, tonumber(max_deliveries or 3) - 1)
    if deaths > 0 and #ctx.tasks > 0 then
      redis.call("LPUSH", requeued, id)
      ctx.want = #ctx.tasks
    elseif deaths > 0 and must_run_alone and is_in_quarantine(ctx) then
      aside[#aside + 1] = id
    elseif not (share and rare().holds_back(ctx, id, queue, share)) and lease_all(ctx, { id }, queue, true)
      and deaths > 0 then
      ctx.want = #ctx.tasks
      if share then
        redis.call("HDEL", task_key(ctx, id), F.batch_calls)
      end
      if must_run_alone then
        redis.call("SET", base_key(ctx, K.quarantine, ctx.worker), id, "PX", T.quarantine_ms)
      end
    end
  end
  for index = #aside, 1, -1 do
    redis.call("LPUSH", requeued, aside[index])
  end
end

-- Lease scheduled tasks that are due. Those of groups enter their groups, and start in turn: while many do, others start.
local function lease_due(ctx, queue)
  local scheduled, grouped_before = queue_key(ctx, queue, P.scheduled), ctx.grouped or 0
  while wants_more(ctx) do
    local due = redis.call("ZRANGEBYSCORE", scheduled, "-inf", ctx.now_ms, "LIMIT", 0, ctx.want - #ctx.tasks)
    if #due == 0 then
      break
    end
    redis.call("ZREMRANGEBYRANK", scheduled, 0, #due - 1)
    lease_all(ctx, due, queue)
  end
  if ctx.grouped and ctx.grouped <= MAX_SKIPPED then
    ctx.skipped = ctx.skipped - (ctx.grouped - grouped_before)
  end
end

-- Lease tasks in turn if a group of the queue has one.
local function lease_grouped(ctx, queue, others)
  if redis.call("EXISTS", queue_key(ctx, queue, P.turns)) == 1 then
    ctx.has_turns = true
    turns().lease_in_turns(ctx, queue, others)
  end
end
