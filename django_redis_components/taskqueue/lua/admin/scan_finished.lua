-- List finished tasks of a queue in one state, newest first, from a cursor on, or those of them that match; looks at a
-- bounded number of rows. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] state  successful, cancelled or expired
-- ARGV[3] finished_limit  how many rows count
-- ARGV[4] finished_ttl_ms  how long they count
-- ARGV[5] cursor  of a task in an earlier reply; empty: the newest
-- ARGV[6] direction  after: the tasks after it; before: the page that ends before it
-- ARGV[7] limit  most rows
-- ARGV[8] budget  most rows that are looked at
-- ARGV[9] mode  names: also counts all matches by name, within the budget; else rows
-- ARGV[10] name  part of the task's name; empty: any. The case of ASCII letters does not matter, in either part
-- ARGV[11] body_part  part of the start of the message; empty: any
-- ARGV[12] from_ms  earliest time at which the task finished; empty: any
-- ARGV[13] until_ms  latest time at which it finished; empty: any
-- ARGV[14] version  of the code that has run the task, whole; empty: any
-- ARGV[15] host  of the worker that has run it, whole; empty: any
-- DERIVED base:q:<queue>:successful, :cancelled, :expired lists, base:deploys, :versions zsets
-- Returns {now_us, total, start, scanned, matched, first, last, rows, names, versions, numbers}: as scan_tasks.lua, but
--         that a row is one of finished_list.lua; for each row the version of the code, and how many rows were looked at,
--         this one included
-- Cost: O(budget + n / 100) in n rows of the list
local base = KEYS[1]
local queue = ARGV[1]
local state = ARGV[2]
local finished_limit = tonumber(ARGV[3])
local finished_ttl_ms = tonumber(ARGV[4])
local cursor = ARGV[5]
local direction = ARGV[6]
local limit = tonumber(ARGV[7])
local budget = tonumber(ARGV[8])
local mode = ARGV[9]
local name = ARGV[10]
local body_part = ARGV[11]
local from_ms = tonumber(ARGV[12])
local until_ms = tonumber(ARGV[13])
local version = ARGV[14]
local host = ARGV[15]
-- @include deploys
-- @include text_part

local ctx = new_context(base)
name, body_part = string.lower(name), string.lower(body_part)
local list = queue_key(ctx, queue, state)
local total = math.min(redis.call("LLEN", list), finished_limit)

-- Return the rows at the positions first to last; 0 is the newest.
local function rows_at(first, last)
  local rows, newest_first = redis.call("LRANGE", list, -1 - last, -1 - first), {}
  for index = #rows, 1, -1 do
    newest_first[#newest_first + 1] = rows[index]
  end
  return newest_first
end

local function finished_us(row)
  return tonumber(string.match(row, "^[^\t]*\t(%d+)")) or 0
end

-- Return how many tasks finished after a moment.
local function count_newer(us)
  local low, high = 0, total
  while low < high do
    local middle = math.floor((low + high) / 2)
    if finished_us(redis.call("LINDEX", list, -1 - middle)) > us then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

local function id_of(row)
  return string.match(row, "^[^\t]*")
end

local function cursor_of(row)
  return string.format("%s %.0f %s", state, finished_us(row), id_of(row))
end

-- Return the position from which a page starts. Many tasks may have finished at the moment of the cursor.
local function start_position()
  local us, id = string.match(cursor, "^%l+ (%d+) (.+)$")
  if not us then
    return 0
  end
  local first = count_newer(tonumber(us))
  local position = first
  while position < total do
    for _, row in ipairs(rows_at(position, math.min(position + 99, total - 1))) do
      if id_of(row) == id then
        return direction == "after" and position + 1 or math.max(0, position - limit)
      elseif finished_us(row) < tonumber(us) then
        return direction == "after" and first or math.max(0, first - limit) -- it has left the list
      end
      position = position + 1
    end
  end
  return direction == "after" and first or math.max(0, first - limit)
end

local function is_in_time(row)
  local ms = (from_ms or until_ms) and finished_us(row) / 1000
  return (not from_ms or ms >= from_ms) and (not until_ms or ms <= until_ms)
end

-- Return the worker that has run the task of a row; nil without one.
local function worker_of_row(row)
  return worker_of(nil, string.match(row, "^[^\t]*\t[^\t]*\t([^\t]*)"))
end

local tally = {}
-- Return whether a row matches, and count it by name.
local function match(row)
  if not is_in_time(row) or not is_of_worker(ctx, worker_of_row(row), version, host) then
    return false
  end
  if name == "" and body_part == "" and mode ~= "names" then
    return true
  end
  local enqueued_us, own_name, message = string.match(row,
    "^[^\t]*\t[^\t]*\t[^\t]*\t([^\t]*)\t[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*\t([^\t]*)\t(.*)$")
  if not own_name or not has_part(own_name, name) or not has_part(message, body_part) then
    return false
  end
  local counted = tally[own_name] or { 0, math.huge }
  tally[own_name] = { counted[1] + 1, math.min(counted[2], tonumber(enqueued_us) or ctx.now_us) }
  return true
end

total = count_newer(ctx.now_us - finished_ttl_ms * 1000)
local start = start_position()
local rows, versions, numbers, scanned, matched, first, last = {}, {}, {}, 0, 0, "", ""
local function wants_more()
  return scanned < budget and start + scanned < total and (mode == "names" or #rows < limit)
end
while wants_more() do
  local position = start + scanned
  for _, row in ipairs(rows_at(position, math.min(position + 99, total - 1))) do
    if not wants_more() then
      break
    end
    scanned = scanned + 1
    first, last = first == "" and row or first, row
    if match(row) then
      matched = matched + 1
      if #rows < limit then
        local worker = worker_of_row(row)
        rows[#rows + 1] = row
        versions[#rows] = worker and version_of(ctx, worker) or ""
        numbers[#rows] = scanned
      end
    end
  end
end
local names = {}
for task_name, counted in pairs(tally) do
  names[#names + 1], names[#names + 2], names[#names + 3] = task_name, counted[1], string.format("%.0f", counted[2])
end
return {
  string.format("%.0f", ctx.now_us), total, start, scanned, matched, first ~= "" and cursor_of(first) or "",
  last ~= "" and cursor_of(last) or "", rows, names, versions, numbers,
}
