-- List tasks of a queue in one state from a cursor on, or those of them that match; looks at a bounded number of tasks.
-- Pending tasks are listed from the back of the queue, finished ones from the newest, scheduled and limited ones in the
-- order in which they are due. Those of groups are listed group by group. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] state  ready, scheduled, retrying, limited, waiting, running, failed or unregistered
-- ARGV[3] cursor  of a task in an earlier reply; empty: the list's start
-- ARGV[4] direction  after: the tasks after it; before: the page that ends before it
-- ARGV[5] limit  most rows
-- ARGV[6] budget  most tasks that are looked at
-- ARGV[7] mode  rows; names: also counts all matches by name, within the budget; ids: rows have the id only, and the
--         order is that of service, or of time
-- ARGV[8] name  part of the task's name; empty: any. The case of ASCII letters does not matter, in any of the parts
-- ARGV[9] body_part  part of the message; empty: any; messages above 8 KiB do not match
-- ARGV[10] error  part of the class or the text of the last error; empty: any
-- ARGV[11] fingerprint  of the last error, whole; empty: any
-- ARGV[12] from_ms  earliest time of the state: of the failure, when it is due, else of acceptance; empty: any
-- ARGV[13] until_ms  latest time of the state; empty: any
-- ARGV[14] any_text  part of the name, or of the class or the text of the last error, or as any_body; empty: any
-- ARGV[15] any_body  part of the message that matches in place of any_text
-- ARGV[16] version  of the code that runs the task, or has run it last, whole; empty: any
-- ARGV[17] host  of that worker, whole; empty: any
-- DERIVED base:q:<queue>:* lists and zsets, base:t:<id> hash, :errors list, base:sequence string, base:deploys, :versions zsets
-- Returns {now_us, sequence, total, start, scanned, matched, first, last, rows, names}: start is the position of the
--         first task that was looked at, first and last the cursors of the first and the last one; each row
--         {id, bytes of the message, message, last error without its traceback, fields, its cursor, how many tasks were
--         looked at with it, version of the code that has run it}; names {name, count, enqueued_us of the oldest, …}
-- Cost: O(budget + log n), and O(n / 1000) to find a place in the middle of the ready list
local base = KEYS[1]
local queue = ARGV[1]
local state = ARGV[2]
local cursor = ARGV[3]
local direction = ARGV[4]
local limit = tonumber(ARGV[5])
local budget = tonumber(ARGV[6])
local mode = ARGV[7]
local name = ARGV[8]
local body_part = ARGV[9]
local error = ARGV[10]
local fingerprint = ARGV[11]
local from_ms = tonumber(ARGV[12])
local until_ms = tonumber(ARGV[13])
local any_text = ARGV[14]
local any_body = ARGV[15]
local version = ARGV[16]
local host = ARGV[17]
-- @include entry_time
-- @include listed_task

local ctx = new_context(base)
name, body_part, error = string.lower(name), string.lower(body_part), string.lower(error)
any_text, any_body = string.lower(any_text), string.lower(any_body)
-- Most bytes of messages that one call searches: folding them costs about 6 ms per MiB.
local MAX_SEARCHED = 2097152
local is_reversed = mode ~= "ids" and state ~= S.scheduled and state ~= S.retrying and state ~= P.limited

local function part_key(part)
  return queue_key(ctx, queue, part)
end

local function is_list(part)
  return part == P.ready or part == P.requeued
end

-- The parts of the list in the order of service: {part, rank of its first task, count}.
local segments, total = {}, 0
local function add_segment(part, first, past)
  segments[#segments + 1] = { part = part, first = first, count = past - first, start = total }
  total = total + past - first
end

local function length(part)
  return redis.call(is_list(part) and "LLEN" or "ZCARD", part_key(part))
end

local due = redis.call("ZCOUNT", part_key(P.scheduled), "-inf", ctx.now_ms)
local for_concurrency = redis.call("ZLEXCOUNT", part_key(P.limited), "[c", "(d")
if state == S.ready then
  local urgent = redis.call("ZCOUNT", part_key(P.priority), "-inf", "(0")
  add_segment(P.requeued, 0, length(P.requeued))
  add_segment(P.scheduled, 0, due)
  add_segment(P.priority, 0, urgent)
  add_segment(P.ready, 0, length(P.ready))
  add_segment(P.priority, urgent, length(P.priority))
  add_segment(P.grouped, 0, length(P.grouped))
  add_segment(P.limited, 0, for_concurrency)
elseif state == S.scheduled then
  add_segment(P.scheduled, due, length(P.scheduled))
  add_segment(P.limited, for_concurrency, length(P.limited))
elseif state == S.retrying then
  add_segment(P.retrying, redis.call("ZCOUNT", part_key(P.retrying), "-inf", ctx.now_ms), length(P.retrying))
else
  add_segment(state, 0, length(state))
end

-- Return the rank of a task in its part, and whether it is there; else the rank that it had.
local function rank_of(part, place, member)
  local key = part_key(part)
  if part == P.ready then
    local rank = ready_rank(ctx, queue, tonumber(place) or 0)
    return rank, redis.call("LINDEX", key, rank) == member
  elseif part == P.requeued then
    local rank = redis.call("LPOS", key, member, "MAXLEN", 1000)
    return rank or 0, rank and true
  end
  local rank = redis.call("ZRANK", key, member)
  if rank then
    return rank, true
  elseif part == P.limited or part == P.grouped then
    return redis.call("ZLEXCOUNT", key, "-", "(" .. member), false
  end
  -- Of tasks with equal scores rather list some again than none.
  local past = (is_reversed and direction == "after") or (not is_reversed and direction == "before")
  return redis.call("ZCOUNT", key, "-inf", past and place or "(" .. place), false
end

-- Return the position in the displayed list from which a page starts.
local function start_position()
  local part, place, member = string.match(cursor, "^([%w_]+) (%S+) (.+)$")
  if not part then
    return 0
  end
  for position, segment in ipairs(segments) do
    local is_last = not (segments[position + 1] and segments[position + 2] and segments[position + 2].part == part)
    if segment.part == part then
      local rank, is_found = rank_of(part, place, member)
      if rank < segment.first + segment.count or is_last then
        local index = segment.start + math.max(0, math.min(rank - segment.first, segment.count))
        if is_reversed then
          local past = is_found and total - 1 - index or total - index
          return direction == "after" and total - index or math.max(0, past - limit)
        end
        return direction == "after" and index + (is_found and 1 or 0) or math.max(0, index - limit)
      end
    end
  end
  return 0
end

-- Return the tasks at the positions first to last, which the list has: {part, member, score}.
local function items_at(first, last)
  if is_reversed then
    first, last = total - 1 - last, total - 1 - first
  end
  local items = {}
  for _, segment in ipairs(segments) do
    local from, to = math.max(first, segment.start), math.min(last, segment.start + segment.count - 1)
    if from <= to then
      from, to = from - segment.start + segment.first, to - segment.start + segment.first
      local step, members = 1, nil
      if is_list(segment.part) then
        members = redis.call("LRANGE", part_key(segment.part), from, to)
      else
        step, members = 2, redis.call("ZRANGE", part_key(segment.part), from, to, "WITHSCORES")
      end
      for position = 1, #members, step do
        items[#items + 1] = { part = segment.part, member = members[position], score = step == 2 and members[position + 1] }
      end
    end
  end
  for position = 1, is_reversed and math.floor(#items / 2) or 0 do
    items[position], items[#items + 1 - position] = items[#items + 1 - position], items[position]
  end
  return items
end

local function cursor_of(item)
  local id = string.match(item.member, "[^\t]+$")
  local place = item.score or string.format("%.0f", entered_us(ctx, id) or 0)
  return item.part .. " " .. place .. " " .. item.member
end

-- Whether the time of the state is within the bounds. The scores of these parts are times; others say when a task waits.
local TIMED = { [P.failed] = true, [P.unregistered] = true, [P.scheduled] = true, [P.retrying] = true, [P.waiting] = true }
local function is_in_time(item, enqueued_us)
  if not from_ms and not until_ms then
    return true
  end
  local ms = state ~= S.ready and TIMED[item.part] and tonumber(item.score) or (tonumber(enqueued_us) or 0) / 1000
  return (not from_ms or ms >= from_ms) and (not until_ms or ms <= until_ms)
end

local searched = 0
local reads_message = body_part ~= "" or any_text ~= ""
-- Return the id, the name and the time of acceptance of a task that matches; else nothing.
local function match(item)
  local id = string.match(item.member, "[^\t]+$")
  local own_queue, own_state, own_name, enqueued_us, own_fingerprint, lease, workers, body = unpack(redis.call("HMGET",
    task_key(ctx, id), F.queue, F.state, F.task_name, F.enqueued_at_us, F.fingerprint, F.lease, F.worker_ids,
    reads_message and F.body or F.queue))
  searched = searched + #(body or "")
  local is_match = own_queue and own_name and own_state ~= S.cancelled
    and (state ~= S.retrying or own_state == S.retrying)
    and is_in_time(item, enqueued_us)
    and (name == "" or has_part(own_name, name))
    and (body_part == "" or is_in_message(body, body_part))
    and (fingerprint == "" or own_fingerprint == fingerprint)
    and is_of_worker(ctx, worker_of(lease, workers), version, host)
    and (error == "" or is_in_error(ctx, id, error))
    and (any_text == "" or has_text(ctx, id, own_name, body, any_text, any_body))
  if is_match then
    return id, own_name, tonumber(enqueued_us) or ctx.now_us -- a record that another client wrote
  end
end

local start = start_position()
local rows, tally, scanned, matched, first, last = {}, {}, 0, 0, "", ""
local function wants_more()
  return scanned < budget and start + scanned < total and searched < MAX_SEARCHED and (mode == "names" or #rows < limit)
end
while wants_more() do
  local position = start + scanned
  for _, item in ipairs(items_at(position, math.min(position + 99, position + budget - scanned - 1, total - 1))) do
    if not wants_more() then
      break
    end
    scanned = scanned + 1
    if scanned == 1 then
      first = cursor_of(item)
    end
    last = item
    local id, task_name, enqueued_us = match(item)
    if id then
      matched = matched + 1
      local counted = tally[task_name] or { 0, math.huge }
      tally[task_name] = { counted[1] + 1, math.min(counted[2], enqueued_us) }
      if #rows < limit then
        rows[#rows + 1] = mode == "ids" and { id } or row_of(ctx, id, cursor_of(item), scanned)
      end
    end
  end
end
local names = {}
for task_name, counted in pairs(tally) do
  names[#names + 1], names[#names + 2], names[#names + 3] = task_name, counted[1], string.format("%.0f", counted[2])
end
local sequence = redis.call("GET", base_key(ctx, K.sequence)) or "0"
return {
  string.format("%.0f", ctx.now_us), sequence, total, start, scanned, matched, first,
  last ~= "" and cursor_of(last) or "", rows, names,
}
