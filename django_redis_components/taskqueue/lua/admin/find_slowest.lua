-- Find the slowest runs of a task among the newest successful tasks of a queue; looks at a bounded number of rows. Writes
-- nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] name  of the task, whole
-- ARGV[3] finished_limit  how many rows count
-- ARGV[4] finished_ttl_ms  how long they count
-- ARGV[5] limit  most rows that are returned
-- ARGV[6] budget  most rows that are looked at
-- DERIVED base:q:<queue>:successful list, base:deploys, :versions zsets
-- Returns {scanned, matched, rows, versions}: rows that were looked at, those of the task, and the slowest of these, slowest
--         first; a row is one of finished_list.lua; versions of the code for each of them
-- Cost: O(budget)
local base = KEYS[1]
local queue = ARGV[1]
local name = ARGV[2]
local finished_limit = tonumber(ARGV[3])
local finished_ttl_ms = tonumber(ARGV[4])
local limit = tonumber(ARGV[5])
local budget = tonumber(ARGV[6])
-- @include deploys

-- finished_us, ran_us and the name.
local ROW = "^[^\t]*\t(%d+)\t[^\t]*\t[^\t]*\t[^\t]*\t(%d+)\t[^\t]*\t[^\t]*\t([^\t]*)\t"
local ctx = new_context(base)
local list = queue_key(ctx, queue, S.successful)
local scanned, found = 0, {}

-- Look at a row. Return whether it still counts, and with it the older ones.
local function look_at(row)
  local finished_us, ran_us, own_name = string.match(row, ROW)
  if finished_us and tonumber(finished_us) <= ctx.now_us - finished_ttl_ms * 1000 then
    return false
  end
  scanned = scanned + 1
  if own_name == name then
    found[#found + 1] = { row = row, ran_us = tonumber(ran_us), position = scanned }
  end
  return true
end

local function look_at_all()
  local length = redis.call("LLEN", list)
  local oldest = math.max(0, length - math.min(finished_limit, budget))
  for past = length, oldest + 1, -100 do
    local rows = redis.call("LRANGE", list, math.max(oldest, past - 100), past - 1)
    for index = #rows, 1, -1 do
      if not look_at(rows[index]) then
        return
      end
    end
  end
end

look_at_all()
table.sort(found, function(one, other)
  return one.ran_us > other.ran_us or (one.ran_us == other.ran_us and one.position < other.position)
end)
local rows, versions = {}, {}
for index = 1, math.min(limit, #found) do
  local worker = worker_of(nil, string.match(found[index].row, "^[^\t]*\t[^\t]*\t([^\t]*)"))
  rows[index] = found[index].row
  versions[index] = worker and version_of(ctx, worker) or ""
end
return { scanned, #found, rows, versions }
