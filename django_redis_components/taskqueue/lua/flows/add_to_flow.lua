-- Add steps, tasks or chains and groups of them, to the group of a running member of a flow: all steps after the member wait
-- for them, too. Their first tasks start at once.
-- Precondition: the ids follow from the member and the calls, so that a repetition, or a repeated run, adds nothing twice.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the member
-- ARGV[2] token  of its lease
-- ARGV[3] max_tasks  how many the flow may have
-- ARGV[4..] nodes  for each task: followers, as places in this list from 0, or "*": those of the member; open parents; what is
--          appended to the list of the member's results: "" the task, "-" nothing, or a JSON list of ids; n, and the n
--          arguments of enqueue.lua. All tasks of a step are in one call
-- DERIVED base:flow:<flow> hash, base:t:<id> hash, base:q:<queue>:ready list, :scheduled, :priority, :waiting, :grouped,
--         :turns zsets, base:sequence string, base:queues, :wakeup:* zsets, base:paused hash, base:limit:* strings
-- Returns {accepted_us, number, …}: microseconds since the epoch, and the number of each task in the flow
-- Returns {-1}: the run has lost its lease
-- Returns {-2}: the flow was evicted, or the task is a callback of it
-- Returns {-3}: the group is complete, or the member was cancelled
-- Returns {-4}: the flow would have too many tasks
-- Returns {-5}: too many tasks wait for the member
-- Cost: O(followers), and O(tasks) times O(log n); each task stores the numbers of the followers, 150 in a field
local base = KEYS[1]
local id = ARGV[1]
local token = ARGV[2]
local max_tasks = tonumber(ARGV[3])
-- @include flow_tasks
-- @include flow_accept
-- @include flow_followers: join_chunks

-- Chunks of tasks that may wait for a member which adds tasks: each of these waits for each that is added.
local MAX_CHUNKS = 34

local ctx = new_context(base)
local lease, state, flow_ref, cancel_request = unpack(redis.call("HMGET", task_key(ctx, id),
  F.lease, F.state, F.flow_ref, F.cancel_request))
if lease ~= token or state ~= S.running then
  return { -1 }
end
local key, number = parse_ref(ctx, flow_ref or "/0")
local line, tasks, added, member = unpack(redis.call("HMGET", key, number, FLOW.tasks, FLOW.added, FLOW.added_by .. number))
if not line or not tasks or is_callback(number, tasks) then
  return { -2 }
end
local followers = join_chunks(key, number, string.match(line, " (.*)$"), MAX_CHUNKS + 1)
if select(2, string.gsub(followers, ";", "")) >= MAX_CHUNKS then
  return { -5 }
end

-- Return whether no follower has started. One that was not run starts after a retry of what failed.
local function are_open()
  for follower in string.gmatch(followers, "%d+") do
    local after, failed_parents = unpack(redis.call("HMGET", key, follower, FLOW.failed_parents .. follower))
    local follower_state = redis.call("HGET", task_key(ctx, string.match(after, "^%S+")), F.state)
    if follower_state ~= S.waiting and not (follower_state == S.failed and tonumber(failed_parents or 0) > 0) then
      return false
    end
  end
  return true
end

-- Return the tasks: where their arguments are, and their numbers if they were added before.
local function parse_nodes()
  local nodes, index = {}, 4
  while index <= #ARGV do
    local after, open, appended, count = unpack(ARGV, index, index + 3)
    local last = index + 3 + count
    nodes[#nodes + 1] = { after = after, open = tonumber(open), appended = appended, first = index + 4, last = last,
      number = redis.call("HGET", key, FLOW.number .. ARGV[index + 4]) }
    index = last + 1
  end
  return nodes
end

local nodes = parse_nodes()
-- Whose place in the list the results follow: that of the member, unless it was added itself and is one value of it.
local place = member and string.match(member, "^%S+$") or id

local function number_of(position)
  return string.format("%d", nodes[position + 1].new)
end

local function added_by(node)
  if node.appended == "-" then
    return ""
  end
  return node.appended == "" and place or place .. " " .. node.appended
end

local function add(node, new)
  local new_id = ARGV[node.first]
  local after = node.after == "*" and followers or string.gsub(node.after, "%d+", number_of)
  accept_node(ctx, key, string.match(flow_ref, "^(.+)/"), new, after, ARGV, node.first, node.last)
  redis.call("HSET", key, FLOW.number .. new_id, new, FLOW.added_by .. new, added_by(node))
  if node.open > 0 then
    redis.call("HSET", key, FLOW.open_parents .. new, node.open)
    hold(ctx, new, new_id)
  else
    start(ctx, key, new, new_id)
  end
end

local size = tonumber(added or 0)
for _, node in ipairs(nodes) do
  if not node.number then
    node.new, size = tasks + 3 + size, size + 1
  end
end
local new = size - tonumber(added or 0)
if new > 0 and (cancel_request or not are_open()) then
  return { -3 }
end
if tasks + size > max_tasks then
  return { -4 }
end
redis.call("HINCRBY", key, FLOW.unfinished, new)
redis.call("HINCRBY", key, FLOW.revision, 1)
redis.call("HSET", key, FLOW.added, size)
local numbers, last_tasks = { ctx.now_us }, 0
for _, node in ipairs(nodes) do
  if node.new then
    add(node, node.new)
    last_tasks = last_tasks + (node.after == "*" and 1 or 0)
  end
  numbers[#numbers + 1] = tonumber(node.new or node.number)
end
for follower in string.gmatch(last_tasks > 0 and followers or "", "%d+") do
  redis.call("HINCRBY", key, FLOW.open_parents .. follower, last_tasks)
end
return numbers
