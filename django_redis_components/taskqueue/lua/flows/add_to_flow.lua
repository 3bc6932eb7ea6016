-- Add steps, tasks or chains and groups of them, to the group of a running member of a flow: all steps after the member wait
-- for them, too. Their first tasks start at once; those of very many are left to steps: see shared/flow_work.lua.
-- Precondition: the ids follow from the member and the calls, so that a repetition, or a repeated run, adds nothing twice.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the member
-- ARGV[2] token  of its lease
-- ARGV[3] max_tasks  how many the flow may have
-- ARGV[4..] nodes  for each task: followers, as places in this list from 0, or "*": those of the member; open parents; what is
--          appended to the list of the member's results: "" the task, "-" nothing, or a JSON list of ids; n, and the n
--          arguments of enqueue.lua, or the first 6 of a task that stage_added.lua has stored. All tasks of a step are in one call
-- DERIVED base:flow:<flow> hash, base:t:<id> hash, base:q:<queue>:ready list, :scheduled, :priority, :waiting, :grouped,
--         :turns zsets, base:sequence string, base:queues, :flow_work, :wakeup:* zsets, base:paused hash, base:limit:* strings
-- Returns {accepted_us, number, …}: microseconds since the epoch, and the number of each task in the flow
-- Returns {-1}: the run has lost its lease
-- Returns {-2}: the flow was evicted, or the task is a callback of it
-- Returns {-3}: the group is complete, or the member was cancelled
-- Returns {-4}: the flow would have too many tasks
-- Returns {-5}: the member had failed and may, and tasks after it, of which there are very many, do not wait for it any more
-- Returns {-6}: a task that was stored has expired, or was evicted
-- Cost: O(tasks) times O(log n); of the followers 100 at most are read
local base = KEYS[1]
local id = ARGV[1]
local token = ARGV[2]
local max_tasks = tonumber(ARGV[3])
-- @include flow_accept
-- @include flow_followers: read_chunk, number_of_chunks
-- @include flow_work

-- Added tasks of which one call starts all.
local MAX_STARTED = 150
-- Arguments of a task that was stored.
local STAGED = 6

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
local followers = string.match(line, " (.*)$")
-- Very many followers are not counted up, nor copied: they wait for the member and what it adds as for one task.
local owner = followers == MANY and number_of_chunks(key, number)

-- Return whether no follower has started; of very many, which cannot start now, the first ones are asked whether they were
-- cancelled. One that was not run starts after a retry of what failed.
local function are_open()
  for follower in string.gmatch((read_chunk(key, number, followers, 0)), "%d+") do
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
  local nodes, names, index = {}, {}, 4
  while index <= #ARGV do
    local after, open, appended, count = unpack(ARGV, index, index + 3)
    local last = index + 3 + count
    nodes[#nodes + 1] = { after = after, open = tonumber(open), appended = appended, first = index + 4, last = last,
      is_staged = tonumber(count) == STAGED }
    names[#names + 1] = FLOW.number .. ARGV[index + 4]
    index = last + 1
  end
  for position, known in ipairs(redis.call("HMGET", key, unpack(names))) do
    nodes[position].number = known
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
  return node.appended == "" and place or place .. " " .. node.appended
end

-- Return whether the records of all tasks that were stored before, and are new, are there.
local function are_staged()
  local records = {}
  for _, node in ipairs(nodes) do
    if node.is_staged and node.new then
      records[#records + 1] = task_key(ctx, ARGV[node.first])
    end
  end
  return #records == 0 or redis.call("EXISTS", unpack(records)) == #records
end

-- Append the fields of a task in the flow's hash.
local function append_fields(fields, node)
  local new, new_id, due, expires = node.new, ARGV[node.first], ARGV[node.first + 2], ARGV[node.first + 5]
  local after = node.after == "*" and followers or store_followers(key, new, (string.gsub(node.after, "%d+", number_of)))
  local size = #fields
  fields[size + 1], fields[size + 2] = new, new_id .. " " .. after
  fields[size + 3], fields[size + 4] = FLOW.number .. new_id, new
  size = size + 4
  if node.appended ~= "-" then
    fields[size + 1], fields[size + 2] = FLOW.added_by .. new, added_by(node)
    size = size + 2
  end
  if node.after == "*" and owner then
    fields[size + 1], fields[size + 2] = FLOW.same_followers .. new, owner
    size = size + 2
  end
  if node.open > 0 then
    fields[size + 1], fields[size + 2] = FLOW.open_parents .. new, node.open
    size = size + 2
  end
  if due ~= "" then
    fields[size + 1], fields[size + 2] = FLOW.due .. new, due
    size = size + 2
  end
  if expires ~= "" then
    fields[size + 1], fields[size + 2] = FLOW.expires .. new, expires
  end
end

local function write_nodes()
  local fields, last_tasks, flow_id = {}, 0, string.match(flow_ref, "^(.+)/")
  for _, node in ipairs(nodes) do
    if node.new then
      local ref = flow_id .. "/" .. node.new
      if node.is_staged then
        local record = task_key(ctx, ARGV[node.first])
        redis.call("HSET", record, F.flow_ref, ref)
        redis.call("PERSIST", record)
      else
        accept_record(ctx, ARGV, node.first, node.last, F.flow_ref, ref)
      end
      append_fields(fields, node)
      last_tasks = last_tasks + (node.after == "*" and 1 or 0)
    end
  end
  for first = 1, #fields, 1000 do
    redis.call("HSET", key, unpack(fields, first, math.min(first + 999, #fields)))
  end
  return last_tasks
end

-- Let the followers wait for some tasks more.
local function wait_for_more(last_tasks)
  if owner and last_tasks > 0 then
    redis.call("HSETNX", key, FLOW.open_members .. owner, 1)
    redis.call("HINCRBY", key, FLOW.open_members .. owner, last_tasks)
    return
  end
  for follower in string.gmatch(last_tasks > 0 and followers or "", "%d+") do
    redis.call("HINCRBY", key, FLOW.open_parents .. follower, last_tasks)
  end
end

local function begin_nodes(first, new)
  if new > MAX_STARTED then
    redis.call("HSETNX", key, FLOW.starting_added, first)
    list_work(ctx, string.match(flow_ref, "^(.+)/"))
    notify(ctx, "poller")
    return
  end
  for _, node in ipairs(nodes) do
    if node.new and node.open > 0 then
      hold(ctx, node.new, ARGV[node.first])
    elseif node.new then
      start(ctx, key, node.new, ARGV[node.first])
    end
  end
end

local size = tonumber(added or 0)
local first = tasks + 3 + size
for _, node in ipairs(nodes) do
  if not node.number then
    node.new, size = tasks + 3 + size, size + 1
  end
end
local new = size - tonumber(added or 0)
if new > 0 and (cancel_request or not are_open()) then
  return { -3 }
elseif new > 0 and owner and redis.call("HGET", key, FLOW.open_members .. owner) == "0" then
  return { -5 }
end
if tasks + size > max_tasks then
  return { -4 }
elseif not are_staged() then
  return { -6 }
end
redis.call("HINCRBY", key, FLOW.unfinished, new)
redis.call("HINCRBY", key, FLOW.revision, 1)
redis.call("HSET", key, FLOW.added, size)
wait_for_more(write_nodes())
begin_nodes(first, new)
local numbers = { ctx.now_us }
for _, node in ipairs(nodes) do
  numbers[#numbers + 1] = tonumber(node.new or node.number)
end
return numbers
