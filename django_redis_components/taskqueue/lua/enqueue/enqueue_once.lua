-- Accept tasks of the outbox in order, each as enqueue.lua does, and once for its row: also after its record was deleted.
-- Precondition: that of enqueue.lua for each of them; at most 1,000. The row of each was committed.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] sender  number below 4 of who sends them: 0 the process that committed, else a relay; it is stored with the tokens
-- ARGV[2..] tasks  for each task: the token of its row, n, and the n arguments of enqueue.lua
-- DERIVED base:outbox zset, base:t:<id> hash, base:q:<queue>:ready list, :scheduled, :priority, :grouped, :turns zsets,
--         :purged_at_us string, base:sequence string, base:queues, :wakeup:* zsets, base:paused hash, base:unique:<digest>, :limit:* strings; and
--         of a task that the call changes base:reply:<id> string, base:q:<queue>:* lists, zsets and hashes, base:rate:*
--         string, base:holders:*, :concurrency_waiters:* zsets
-- Returns for each task what enqueue.lua returns: above 0, or {id, record}; for a row that was accepted before the same time,
--         below 0 if another sender has sent it
-- Cost: O(tasks) times that of enqueue.lua, and O(log n) in the rows sent lately
local base = KEYS[1]
local sender = tonumber(ARGV[1])
-- @include accept
-- @include outbox_token

local ctx = new_context(base)

-- Accept the task that args[first] to args[last] describe, and push it alone: an error of a later task must not leave it
-- in no list.
local function accept_and_push(at_us, first, last)
  local reply, queue = accept_task(ctx, at_us, ARGV, first, last)
  if queue then
    push_ready(ctx, queue, 1, ARGV[first])
  end
  return reply
end

local accepted = {}
local index = 2
while index <= #ARGV do
  local token, first = ARGV[index], index + 2
  local last = first + ARGV[index + 1] - 1
  local accepted_before = token_reply(ctx, token, sender)
  if accepted_before then
    accepted[#accepted + 1] = accepted_before
  else
    local at_us = ctx.now_us + #accepted
    local is_accepted, reply = pcall(accept_and_push, at_us, first, last)
    if not is_accepted then -- the next attempt would take a task with a record for one that was accepted
      redis.call("DEL", task_key(ctx, ARGV[first]))
      error(reply)
    end
    add_token(ctx, token, at_us, sender)
    accepted[#accepted + 1] = reply
  end
  index = last + 1
end
return accepted
