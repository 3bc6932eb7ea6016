-- Read the registered schedules and their latest tasks. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] limit  maximum number of schedules, the latest registered first
-- DERIVED base:poller string, base:schedules zset, base:schedule:<name>, :paused_schedules, :added_schedules,
--         :t:<id> hashes
-- Returns {now_us, active, rows, paused, added}: active 1 if a poller is; each row {name, registered_ms, times, last_ms,
--         next_ms, fired_us, id, info, queue, state, due_ms} of the latest task, empty without one, queue empty too when
--         its record has expired; paused and added flat lists of names and texts, as their keys have them
-- Cost: O(limit + paused + added)
local base = KEYS[1]
local limit = tonumber(ARGV[1])
-- @include context

local ctx = new_context(base)
local rows = {}
local registered = redis.call("ZREVRANGE", base_key(ctx, K.schedules), 0, limit - 1, "WITHSCORES")
for index = 1, #registered, 2 do
  local times, last, next, fired, id, info = unpack(redis.call("HMGET", base_key(ctx, K.schedule, registered[index]),
    "times", "last", "next", "fired", "id", "info"))
  local queue, state, due_ms = unpack(redis.call("HMGET", task_key(ctx, id or ""), F.queue, F.state, F.due_at_ms))
  rows[#rows + 1] = {
    registered[index], tonumber(registered[index + 1]), times or "", tonumber(last or 0), tonumber(next or 0), tonumber(fired or 0),
    id or "", info or "{}", queue or "", state or "", due_ms or "",
  }
end
return {
  ctx.now_us, redis.call("EXISTS", base_key(ctx, K.poller)), rows,
  redis.call("HGETALL", base_key(ctx, K.paused_schedules)), redis.call("HGETALL", base_key(ctx, K.added_schedules)),
}
