-- Read what was changed at run time: the schedules that are paused, and those that were added. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- DERIVED base:paused_schedules, :added_schedules hashes, base:schedules_version string
-- Returns {version, paused, added}: paused a list of names; added a flat list of names and definitions
-- Cost: O(schedules)
local base = KEYS[1]
-- @include context

local ctx = new_context(base)
return {
  tonumber(redis.call("GET", base_key(ctx, K.schedules_version)) or 0),
  redis.call("HKEYS", base_key(ctx, K.paused_schedules)),
  redis.call("HGETALL", base_key(ctx, K.added_schedules)),
}
