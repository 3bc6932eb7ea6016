-- When pending tasks entered their queues, and where those of the ready list are.
-- @include context

-- Return when a task entered its queue, in microseconds: when it was accepted, put into a list again, or returned by a
-- run that did not succeed. Nil without a valid record.
local function entered_us(ctx, id)
  local enqueued_us, placed_us, history = unpack(redis.call("HMGET", task_key(ctx, id),
    F.enqueued_at_us, F.placed_at_us, F.history))
  if not tonumber(enqueued_us) then -- no record, or one that another client wrote
    return nil
  end
  local leased_us, ran_us = string.match(history or "", "(%d+) (%d+) [^\n]*$")
  local returned_us = leased_us and leased_us + ran_us or 0
  return math.max(tonumber(enqueued_us), tonumber(placed_us) or 0, returned_us)
end

-- Entries without a record behind each other that a search looks past: those of cancelled tasks whose records have expired.
local MAX_DEAD = 100

-- Return the rank of the first task of the ready list that entered it at this time or later, by a binary search.
local function ready_rank(ctx, queue, at_us)
  local ready = queue_key(ctx, queue, P.ready)
  local low, high = 0, redis.call("LLEN", ready)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local rank, entered = middle, entered_us(ctx, redis.call("LINDEX", ready, middle))
    while not entered and rank + 1 < math.min(high, middle + MAX_DEAD) do
      rank = rank + 1
      entered = entered_us(ctx, redis.call("LINDEX", ready, rank))
    end
    if (entered or 0) < at_us then
      low = rank + 1
    else
      high = middle
    end
  end
  return low
end

-- Return the index of a task in a list, or nil; looks at both ends and around an expected index, at `searched` entries of each.
local function index_in(list, id, searched, expected)
  local index = redis.call("LPOS", list, id, "MAXLEN", searched) or redis.call("LPOS", list, id, "RANK", -1, "MAXLEN", searched)
  if index or not expected then
    return index
  end
  local first = math.max(0, expected - searched)
  for position, other in ipairs(redis.call("LRANGE", list, first, expected + searched)) do
    if other == id then
      return first + position - 1
    end
  end
end
