-- Store the records of tasks that a running member adds to its group, if one call of add_to_flow.lua would take too long with
-- them. That call, which follows, adds all of them; without it they expire.
-- Precondition: a repetition, or a repeated run, stores the same.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the member
-- ARGV[2] token  of its lease
-- ARGV[3..] tasks  for each: n, and the n arguments of enqueue.lua
-- DERIVED base:flow:<flow> hash, base:t:<id> hash, base:limit:* strings
-- Returns 1: they are stored, or were added before
-- Returns -1: the run has lost its lease
-- Cost: O(tasks)
local base = KEYS[1]
local id = ARGV[1]
local token = ARGV[2]
-- @include flow_accept
-- @include flow_tasks: parse_ref

local ctx = new_context(base)
local lease, state, flow_ref = unpack(redis.call("HMGET", task_key(ctx, id), F.lease, F.state, F.flow_ref))
if lease ~= token or state ~= S.running then
  return -1
end
local key = parse_ref(ctx, flow_ref or "/0")
local index = 3
while index <= #ARGV do
  local first, last = index + 1, index + ARGV[index]
  if redis.call("HEXISTS", key, FLOW.number .. ARGV[first]) == 0 then
    accept_record(ctx, ARGV, first, last)
    redis.call("PEXPIRE", task_key(ctx, ARGV[first]), T.partial_flow_ms)
  end
  index = last + 1
end
return 1
