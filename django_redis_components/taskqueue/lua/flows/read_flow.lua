-- Read a part of a flow: how many of its tasks are in each state, and its first tasks in detail. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] flow_id  id
-- ARGV[2] limit  how many of the flow's first tasks, and failed tasks of this part, are read in detail
-- ARGV[3] first  place of the first task of this part in the flow, from 0
-- ARGV[4] last  place of its last task
-- DERIVED base:flow:<flow> hash, base:t:<id> hash
-- Returns {now_us, tasks, unfinished, states, rows, failed, callbacks, tree, callback_of}: tasks is how many the flow has, those that were
--         added included, and unfinished how many of them have not finished; states a flat list of state and number; each
--         row {number, id, followers (of very many the first ones, with ";" in between), state, name, queue}, in rows the first tasks, in failed the first failed ones;
--         callbacks has such a row and its result if it is short, or an empty list, for on_error, on_complete and on_success; state is not_run if a task
--         before it has failed, and ignored if it ended without success and may; tree is empty if no steps are nested; callback_of is the flow whose callback this one is, or empty
-- Returns {}: no flow has this id
-- Cost: O(last - first)
local base = KEYS[1]
local flow_id = ARGV[1]
local limit = tonumber(ARGV[2])
local first = tonumber(ARGV[3])
local last = tonumber(ARGV[4])
-- @include context
-- @include flow_followers: join_chunks

-- Bytes of the result of a callback that is read: the id of a flow, as the task that starts one returns it.
local MAX_RESULT = 200
-- Chunks of a task's followers that are read: more than the tasks that are read in detail.
local MAX_CHUNKS = 6

local ctx = new_context(base)
local key = base_key(ctx, K.flow, flow_id)
local tasks, added, unfinished, tree, callback_of = unpack(redis.call("HMGET", key, FLOW.tasks, FLOW.added, FLOW.unfinished,
  FLOW.tree, FLOW.callback_of))
if not tasks then
  return {}
end
tasks, added = tonumber(tasks), tonumber(added or 0)

-- Return the id and the state of a task, and its followers; a deleted task counts as cancelled.
local function state_of(number)
  local node, failed_parents = unpack(redis.call("HMGET", key, number, FLOW.failed_parents .. number))
  local id, followers = string.match(node or "", "^(%S+) ?(.*)$")
  local state, on_failure, uncounted = unpack(redis.call("HMGET", task_key(ctx, id or ""), F.state, F.on_failure,
    F.failure_uncounted))
  state = state or S.cancelled
  if (on_failure == "ignore" or uncounted) and (state == S.failed or state == S.cancelled or state == S.expired) then
    state = "ignored"
  elseif state == S.failed and tonumber(failed_parents or 0) > 0 then
    state = "not_run"
  end
  return id or "", state, followers or ""
end

local function row(number, id, state, followers)
  local name, queue = unpack(redis.call("HMGET", task_key(ctx, id), F.task_name, F.queue))
  return { number, id, join_chunks(key, number, followers, MAX_CHUNKS), state, name or "", queue or "" }
end

local counts, rows, failed = {}, {}, {}
for position = first, math.min(last, tasks + added - 1) do
  local number = position < tasks and position or position + 3 -- behind the numbers of the callbacks
  local id, state, followers = state_of(number)
  counts[state] = (counts[state] or 0) + 1
  if position < limit then
    rows[#rows + 1] = row(number, id, state, followers)
  end
  if state == S.failed and #failed < limit then
    failed[#failed + 1] = row(number, id, state, followers)
  end
end
local states = {}
for state, count in pairs(counts) do
  states[#states + 1] = state
  states[#states + 1] = count
end
local callbacks = {}
for number = tasks, tasks + 2 do
  local id, state = state_of(number)
  local record, callback = task_key(ctx, id), {}
  if redis.call("EXISTS", record) == 1 then
    local is_short = redis.call("HSTRLEN", record, F.return_value) <= MAX_RESULT
    callback = row(number, id, state, "")
    callback[#callback + 1] = is_short and redis.call("HGET", record, F.return_value) or ""
  end
  callbacks[#callbacks + 1] = callback
end
return { ctx.now_us, tasks + added, tonumber(unfinished or 0), states, rows, failed, callbacks, tree or "",
  callback_of or "" }
