-- Read when the latest tasks of queues were accepted. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1..] queues  names
-- DERIVED base:q:<queue>:ready list, base:t:<id> hash
-- Returns {now_us, rows}: each row {latest, latest_us, newest_us}: the last `latest` tasks of the ready list, 100 at most,
--         were accepted from latest_us to newest_us; zeros with fewer than two
-- Cost: O(queues)
local base = KEYS[1]
-- @include arrivals

local ctx, rows = new_context(base), {}
for position, queue in ipairs(ARGV) do
  local ready = queue_key(ctx, queue, P.ready)
  rows[position] = { latest_arrivals(ctx, ready, redis.call("LLEN", ready)) }
end
return { ctx.now_us, rows }
