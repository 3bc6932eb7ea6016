-- Accept tasks of one name for one queue, in order, that are due at once and have no priority, unique key, expiry or limit.
-- Precondition: that of enqueue.lua for each of them; at most 1,000.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] name  of the task
-- ARGV[3..] tasks  for each task: id and body; then who enqueued them, as `Field.origin` states, if that is known
-- DERIVED base:t:<id> hash, base:q:<queue>:ready list, base:queues, :wakeup:* zsets, base:paused hash
-- Returns for each task what enqueue.lua returns: above 0
-- Cost: O(tasks)
local base = KEYS[1]
local queue = ARGV[1]
local name = ARGV[2]
-- @include placement

local ctx = new_context(base)
local count = math.floor(#ARGV / 2) - 1
local origin = ARGV[2 * count + 3]

local function write(record, at_us, body)
  if origin then
    redis.call("HSET", record, F.queue, queue, F.enqueued_at_us, at_us, F.task_name, name, F.body, body,
      F.origin, origin)
  else
    redis.call("HSET", record, F.queue, queue, F.enqueued_at_us, at_us, F.task_name, name, F.body, body)
  end
end

-- Tasks of a repeated call have their records; one command shows that none exists.
local ids, records = {}, {}
for index = 3, 2 * count + 1, 2 do
  ids[#ids + 1] = ARGV[index]
  records[#records + 1] = task_key(ctx, ARGV[index])
end
local is_repeated = redis.call("EXISTS", unpack(records)) > 0

local accepted, ready = {}, {}
for number, record in ipairs(records) do
  local accepted_before = is_repeated and redis.call("HGET", record, F.enqueued_at_us)
  accepted[number] = tonumber(accepted_before or ctx.now_us + number - 1)
  if not accepted_before then
    write(record, accepted[number], ARGV[2 * number + 2])
    ready[#ready + 1] = ids[number]
  end
end
if #ready > 0 then
  push_ready(ctx, queue, #ready, unpack(ready))
end
return accepted
