-- Find a task in the lists of finished tasks by its id; looks at a bounded number of rows. Writes nothing.
-- Precondition: none; the caller repeats it with the cursor that it returns.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] queue  the only one whose lists are looked at; empty: all
-- ARGV[3] cursor  of an earlier reply; empty: the first list
-- ARGV[4] budget  rows and lists that are looked at, and up to 100 rows more
-- DERIVED base:queues zset, base:q:<queue>:successful, :cancelled, :expired lists
-- Returns {queue, state, row, cursor}: row is empty if it was not found; the cursor states where the next call continues,
--         "list rows", and is empty after the last list
-- Cost: O(budget), and O(n / 100) in n rows of a list
local base = KEYS[1]
local id = ARGV[1]
local queue = ARGV[2]
local cursor = ARGV[3]
local budget = tonumber(ARGV[4])
-- @include context

local STATES = { S.successful, S.cancelled, S.expired }
local ctx = new_context(base)
local start, looked_at = id .. "\t", 0

-- Return the queue and the state of a list by its number; nothing after the last.
local function list_of(number)
  local rank, name = math.floor(number / #STATES), nil
  if queue == "" then
    name = redis.call("ZRANGE", base_key(ctx, K.queues), rank, rank)[1]
  else
    name = rank == 0 and queue or nil
  end
  return name, STATES[number % #STATES + 1]
end

-- Look for the row in a list, behind the newest `skip` rows. Return the row, or nil and how many rows to skip in the next
-- call, nil after the last row.
local function find_in(list, skip)
  local length = redis.call("LLEN", list)
  looked_at = looked_at + 1 -- an empty list costs as much as a row
  for past = length - skip, 1, -100 do
    local rows = redis.call("LRANGE", list, math.max(0, past - 100), past - 1)
    looked_at = looked_at + #rows
    for index = #rows, 1, -1 do
      if string.sub(rows[index], 1, #start) == start then
        return rows[index]
      end
    end
    if looked_at >= budget and past > 100 then
      return nil, length - past + 100
    end
  end
end

local number, skip = string.match(cursor, "^(%d+) (%d+)$")
number, skip = tonumber(number or 0), tonumber(skip or 0)
while looked_at < budget do
  local name, state = list_of(number)
  if not name then
    return { "", "", "", "" }
  end
  local row, next_skip = find_in(queue_key(ctx, name, state), skip)
  if row then
    return { name, state, row, "" }
  end
  number, skip = next_skip and number or number + 1, next_skip or 0
end
return { "", "", "", string.format("%.0f %.0f", number, skip) }
