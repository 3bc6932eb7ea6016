-- List the errors of a queue's tasks, each kind once, those first that came last. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] limit  at most so many
-- DERIVED base:q:<queue>:errs zset, base:q:<queue>:err:<fingerprint> hash
-- Returns rows: each {fingerprint, times, final, first_ms, last_ms, about, ids}
-- Cost: O(limit + log n)
local base = KEYS[1]
local queue = ARGV[1]
local limit = tonumber(ARGV[2])
-- @include places

local rows = {}
for _, fingerprint in ipairs(redis.call("ZREVRANGE", place(queue, "errs"), 0, limit - 1)) do
    local key = place(queue, "err:" .. fingerprint)
    local seen = redis.call("HMGET", key, "times", "final", "first", "last", "about", "ids")
    if seen[1] then
        rows[#rows + 1] = { fingerprint, unpack(seen) }
    end
end
return rows
