-- List the errors of queues by fingerprint. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] limit  maximum number of groups
-- ARGV[2] fingerprint  of the only error to list; empty: all
-- ARGV[3] order  latest: the latest first; most: those of the last hour, the one with most failures in it first
-- ARGV[4] first  rank in the index of the first of the 500 queues that are read if none is named
-- ARGV[5..] queues  names
-- DERIVED base:queues, base:q:<queue>:errors zsets, base:q:<queue>:error:<fingerprint>, base:t:<id> hashes, :errors lists
-- Returns {now_us, total, rows, next}: next is the rank at which the next call continues, 0 after the last queue; total counts the groups beyond the limit, too; each row {queue, fingerprint, group, sample}:
--         group {times, final, first_ms, last_ms, about, ids, minutes}; sample {id, task name, error} of the latest task
--         whose last error this still is, or empty. Errors are without tracebacks; with a fingerprint the first one is whole
-- Cost: O(queues + limit * limit), with order "most" O(queues * errors); each row looks at up to 10 tasks
local base = KEYS[1]
local limit = tonumber(ARGV[1])
local fingerprint = ARGV[2]
local order = ARGV[3]
local first = tonumber(ARGV[4])
-- @include context
-- @include last_error

local CHUNK, HOUR_MS = 500, 3600000
local ctx = new_context(base)
local queues, next = { unpack(ARGV, 5) }, 0
if #queues == 0 then
  queues = redis.call("ZRANGE", base_key(ctx, K.queues), first, first + CHUNK - 1)
  next = #queues == CHUNK and first + CHUNK or 0
end

-- Return how many groups queues have, and the queues that have any; of these only those whose latest groups are among the
-- `limit` latest of all: the groups of others are not listed.
local function queues_with_groups()
  local total, found = 0, {}
  for _, queue in ipairs(queues) do
    local index = queue_key(ctx, queue, P.errors)
    local count = redis.call("ZCARD", index)
    if count > 0 then
      total = total + count
      found[#found + 1] = { queue = queue, index = index, position = #found }
    end
  end
  if order == "latest" and #found > limit then
    for _, each in ipairs(found) do
      each.last_ms = tonumber(redis.call("ZREVRANGE", each.index, 0, 0, "WITHSCORES")[2])
    end
    table.sort(found, function(one, other)
      return one.last_ms > other.last_ms or one.last_ms == other.last_ms and one.position < other.position
    end)
    found = { unpack(found, 1, limit) }
  end
  return total, found
end

-- Return fingerprints and times of the groups to sort of a queue.
local function groups_of(index)
  local oldest_ms = order == "most" and ctx.now_ms - HOUR_MS or "-inf"
  local count = order == "most" and -1 or limit
  return redis.call("ZREVRANGEBYSCORE", index, "+inf", oldest_ms, "WITHSCORES", "LIMIT", 0, count)
end

-- Return an error's failures of the last hour, from "minute:count minute:count …".
local function recent_failures(queue, own)
  local count, oldest = 0, math.floor((ctx.now_ms - HOUR_MS) / 60000)
  local minutes = redis.call("HGET", queue_key(ctx, queue, P.error .. ":" .. own), "minutes") or ""
  for minute, failures in string.gmatch(minutes, "(%d+):(%d+)") do
    count = count + (tonumber(minute) > oldest and tonumber(failures) or 0)
  end
  return count
end

local ranked, total = {}, 0
local function add(queue, own, last_ms)
  local rank = order == "most" and recent_failures(queue, own) or tonumber(last_ms)
  ranked[#ranked + 1] = { queue = queue, fingerprint = own, rank = rank, position = #ranked }
end
if fingerprint ~= "" then
  for _, queue in ipairs(queues) do
    local last_ms = redis.call("ZSCORE", queue_key(ctx, queue, P.errors), fingerprint)
    if last_ms then
      add(queue, fingerprint, last_ms)
    end
  end
  total = #ranked
else
  local found
  total, found = queues_with_groups()
  for _, each in ipairs(found) do
    local groups = groups_of(each.index)
    for position = 1, #groups, 2 do
      add(each.queue, groups[position], groups[position + 1])
    end
  end
end
table.sort(ranked, function(one, other)
  return one.rank > other.rank or one.rank == other.rank and one.position < other.position
end)

local function sample_of(ids, expected, is_whole)
  for id in string.gmatch(ids, "%S+") do
    local own, name = unpack(redis.call("HMGET", task_key(ctx, id), F.fingerprint, F.task_name))
    local stored = own == expected and last_error(ctx, id)
    if stored then
      return { id, name, is_whole and stored or without_traceback(stored) }
    end
  end
  return {}
end

local rows, is_whole = {}, fingerprint ~= ""
for position = 1, math.min(limit, #ranked) do
  local queue, own = ranked[position].queue, ranked[position].fingerprint
  local group = redis.call("HMGET", queue_key(ctx, queue, P.error .. ":" .. own),
    "times", "final", "first", "last", "about", "ids", "minutes")
  if group[1] then
    local sample = sample_of(group[6] or "", own, is_whole)
    is_whole = is_whole and #sample == 0
    rows[#rows + 1] = { queue, own, group, sample }
  end
end
return { ctx.now_us, total, rows, next }
