-- Find a task in the lists of finished tasks by its id; looks at a bounded number of rows. Writes nothing.
-- Precondition: none; the caller repeats it with the rank that it returns.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] queue  where to look first; empty: nowhere
-- ARGV[3] first  rank of the first queue of this call in the index
-- ARGV[4] budget  rows after which no other queue is looked at
-- DERIVED base:queues zset, base:q:<queue>:successful, :cancelled, :expired lists
-- Returns {queue, state, row, next}: row is empty if it was not found; next is the rank at which the next call continues,
--         0 after the last queue
-- Cost: O(budget + rows of one queue)
local base = KEYS[1]
local id = ARGV[1]
local queue = ARGV[2]
local first = tonumber(ARGV[3])
local budget = tonumber(ARGV[4])
-- @include context

local ctx = new_context(base)
local start, looked_at = id .. "\t", 0

local function find_in(list)
  local length = redis.call("LLEN", list)
  for past = length, 1, -100 do
    local rows = redis.call("LRANGE", list, math.max(0, past - 100), past - 1)
    looked_at = looked_at + #rows
    for index = #rows, 1, -1 do
      if string.sub(rows[index], 1, #start) == start then
        return rows[index]
      end
    end
  end
end

local function find(name)
  for _, state in ipairs({ S.successful, S.cancelled, S.expired }) do
    local row = find_in(queue_key(ctx, name, state))
    if row then
      return { name, state, row, 0 }
    end
  end
end

local found = queue ~= "" and find(queue)
if found then
  return found
end
local rank = first
looked_at = 0
while looked_at < budget do
  local name = redis.call("ZRANGE", base_key(ctx, K.queues), rank, rank)[1]
  if not name then
    return { "", "", "", 0 }
  end
  found = find(name)
  if found then
    return found
  end
  rank = rank + 1
end
return { "", "", "", rank }
