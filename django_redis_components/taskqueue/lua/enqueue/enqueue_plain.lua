-- Accept a task that is due at once and has no priority, unique key, expiry or limit: the most frequent call.
-- Precondition: that of enqueue.lua.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] name  of the task
-- ARGV[3] id  of the task
-- ARGV[4] body  JSON
-- ARGV[5] origin  who enqueued it, as `Field.origin` states; empty if unknown
-- DERIVED base:t:<id> hash, base:q:<queue>:ready list, base:queues, :wakeup:* zsets, base:paused hash
-- Returns what enqueue.lua returns: above 0
-- Cost: O(1)
local base = KEYS[1]
local queue, name, id, body, origin = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- What `push_ready` and `notify_queue` do is written out: to create the functions takes a third of the server's time.
local record = base .. ":" .. K.task .. ":" .. id
local accepted_before = redis.call("HGET", record, F.enqueued_at_us)
if accepted_before then
  return tonumber(accepted_before)
end
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
if origin == "" then
  redis.call("HSET", record, F.queue, queue, F.enqueued_at_us, now_us, F.task_name, name, F.body, body)
else
  redis.call("HSET", record, F.queue, queue, F.enqueued_at_us, now_us, F.task_name, name, F.body, body,
    F.origin, origin)
end
local now_ms = math.floor(now_us / 1000)
if redis.call("RPUSH", base .. ":" .. K.queue .. ":" .. queue .. ":" .. P.ready, id) == 1 then
  redis.call("ZADD", base .. ":" .. K.queues, "NX", now_ms, queue)
end
if not redis.call("HGET", base .. ":" .. K.paused, queue) then
  local wakeup = base .. ":" .. K.wakeup .. ":q:" .. queue
  if redis.call("ZADD", wakeup, "0", "1") == 1 then
    redis.call("PEXPIRE", wakeup, T.wakeup_ms)
  end
  return now_us
end

-- @include wakeups: notify_queue
notify_queue({ base = base, now_ms = now_ms }, queue)
return now_us
