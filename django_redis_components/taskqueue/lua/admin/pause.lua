-- Pause a queue: workers fetch nothing from it; running tasks continue.
-- Precondition: none; a paused queue gets the new end and note.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] ends_at  empty: without an end; "+ms": milliseconds from now; else milliseconds since the epoch
-- ARGV[3] note  JSON: reason, author
-- DERIVED base:paused hash, base:wakeup:* zset
-- Returns 1: paused
-- Returns 0: the end has passed
-- Cost: O(1)
local base = KEYS[1]
local queue = ARGV[1]
local ends_at = ARGV[2]
local note = ARGV[3]
-- @include wakeups

local ctx = new_context(base)
local until_ms = 0
if ends_at ~= "" then
  until_ms = string.sub(ends_at, 1, 1) == "+" and ctx.now_ms + tonumber(ends_at) or tonumber(ends_at)
  if until_ms <= ctx.now_ms then
    return 0
  end
end
redis.call("HSET", base_key(ctx, K.paused), queue, string.format("%.0f|%.0f|%s", until_ms, ctx.now_ms, note))
if until_ms > 0 then
  -- Waiting workers must learn when to look again: tasks that arrive meanwhile notify none.
  notify(ctx, "q:" .. queue)
  notify(ctx, "poller")
end
return 1
