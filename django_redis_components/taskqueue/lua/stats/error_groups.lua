-- List the errors of a queue's tasks by fingerprint, the latest first. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] limit  maximum number of groups
-- DERIVED base:q:<queue>:errors zset, base:q:<queue>:error:<fingerprint> hash
-- Returns rows: each {fingerprint, times, final, first_ms, last_ms, about, ids}
-- Cost: O(limit + log n)
local base = KEYS[1]
local queue = ARGV[1]
local limit = tonumber(ARGV[2])
-- @include context

local ctx = new_context(base)
local rows = {}
for _, fingerprint in ipairs(redis.call("ZREVRANGE", queue_key(ctx, queue, P.errors), 0, limit - 1)) do
  local key = queue_key(ctx, queue, P.error .. ":" .. fingerprint)
  local group = redis.call("HMGET", key, "times", "final", "first", "last", "about", "ids")
  if group[1] then
    rows[#rows + 1] = { fingerprint, unpack(group) }
  end
end
return rows
