-- When pending tasks entered their queues.
-- @include context

-- Return when a task entered its queue, in microseconds: when it was accepted, put into a list again, or returned by a
-- run that did not succeed. Nil without a record.
local function entered_us(ctx, id)
  local enqueued_us, placed_us, history = unpack(redis.call("HMGET", task_key(ctx, id),
    F.enqueued_at_us, F.placed_at_us, F.history))
  if not enqueued_us then
    return nil
  end
  local leased_us, ran_us = string.match(history or "", "(%d+) (%d+) [^\n]*$")
  local returned_us = leased_us and leased_us + ran_us or 0
  return math.max(tonumber(enqueued_us), tonumber(placed_us or 0), returned_us)
end
