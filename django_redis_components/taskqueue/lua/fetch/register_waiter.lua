-- Register a client that waits for a task's result.
-- Precondition: none.
-- KEYS[1] record  hash
-- Returns 1: the task has finished
-- Returns 0: not yet; its end pushes a wakeup for the client
-- Returns -1: the task does not exist
-- Cost: O(1)
local record = KEYS[1]
-- @include states

local queue, state = unpack(redis.call("HMGET", record, F.queue, F.state))
if not queue then
  return -1
end
if is_final(state) then
  return 1
end
redis.call("HINCRBY", record, F.waiters, 1)
return 0
