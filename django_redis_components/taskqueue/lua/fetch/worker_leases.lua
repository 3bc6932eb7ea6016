-- Find the tasks of a queue that a worker has leased, among a range of the running ones. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] worker  id
-- ARGV[2] queue  name
-- ARGV[3] offset  how many running tasks are passed over
-- ARGV[4] limit  how many are read
-- DERIVED base:q:<queue>:running zset, base:t:<id> hash
-- Returns {seen, tasks}: how many were read; {accepted_us, id, token} of each task of the worker
-- Cost: O(limit + log n)
local base = KEYS[1]
local worker = ARGV[1]
local queue = ARGV[2]
local offset = tonumber(ARGV[3])
local limit = tonumber(ARGV[4])
-- @include context

local ctx = new_context(base)
local ids = redis.call("ZRANGE", queue_key(ctx, queue, P.running), offset, offset + limit - 1)
local found = {}
for _, id in ipairs(ids) do
  local token, state, enqueued_us = unpack(redis.call("HMGET", task_key(ctx, id), F.lease, F.state, F.enqueued_at_us))
  if token and state == S.running and string.match(token, "^[^/]*") == worker then
    found[#found + 1] = { enqueued_us, id, token }
  end
end
return { #ids, found }
