-- List workers by id, with their reports and the commands that wait for their supervisors. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] after  the id before the first one; empty: from the start
-- ARGV[2] supervisor  id: only its workers; empty: all
-- ARGV[3] limit  most workers that are returned, at most 200
-- ARGV[4] lease_ms  duration of a lease: a worker without a heartbeat for so long is lost
-- DERIVED base:workers zset, base:worker:<worker> string, base:commands:<supervisor> list, base:poller string
-- Returns {now_us, poller, total, live, has_more, rows, commands}: poller empty without an active one; total of the 5,000
--         workers with the latest heartbeats, and how many of them are not lost; each row {id, seen_ms, report}, the
--         report empty if it has expired; commands as `Key.commands` states
-- Cost: O(n log n) for n workers, at most 5,000
local base = KEYS[1]
local after = ARGV[1]
local supervisor = ARGV[2]
local limit = tonumber(ARGV[3])
local lease_ms = tonumber(ARGV[4])
-- @include commands

local ctx = new_context(base)

local function supervisor_of(id)
  return string.match(id, "^(.*)%.[^.]*$") or id
end

local heartbeats = redis.call("ZREVRANGE", base_key(ctx, K.workers), 0, 4999, "WITHSCORES")
local ids, seen, total, live = {}, {}, 0, 0
for index = 1, #heartbeats, 2 do
  local id = heartbeats[index]
  if supervisor == "" or supervisor_of(id) == supervisor then
    total = total + 1
    seen[id] = tonumber(heartbeats[index + 1])
    if seen[id] >= ctx.now_ms - lease_ms then
      live = live + 1
    end
    if id > after then
      ids[#ids + 1] = id
    end
  end
end
table.sort(ids)
local has_more = #ids > limit and 1 or 0
local rows, commands, has_read = {}, {}, {}
for index = 1, math.min(#ids, limit) do
  local id = ids[index]
  rows[index] = { id, string.format("%.0f", seen[id]), redis.call("GET", base_key(ctx, K.worker, id)) or "" }
  local own = supervisor_of(id)
  if not has_read[own] then
    has_read[own] = true
    for _, entry in ipairs(pending_commands(ctx, own)) do
      commands[#commands + 1] = entry
    end
  end
end
return { ctx.now_us, redis.call("GET", base_key(ctx, K.poller)) or "", total, live, has_more, rows, commands }
