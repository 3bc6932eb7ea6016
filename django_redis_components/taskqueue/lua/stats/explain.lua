-- Read a task and the facts that decide whether it runs: its place in the queue, the pause, limits, unique key, flow and
-- workers; the versions of the code that have run it, and the run times of its name. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] id  of the task
-- ARGV[2] max_bytes  longer values of the record are not returned, only their sizes
-- ARGV[3] errors  most errors that are returned, the latest
-- DERIVED base:t:<id> hash, :errors list, base:q:<queue>:* lists and zsets, base:paused, :flow:<flow>, :reserved hashes,
--         base:limit:*, :rate:*, :u:* strings, base:holders:*, :workers, :deploys, :versions, :trash_index,
--         :trash:<trash>:<state> zsets, base:worker:<worker> strings
-- Returns {}: the task does not exist
-- Returns {now_us, fields, sizes, errors, facts, members, workers, versions, run_times}: fields and facts are names and values in turn, sizes
--         the names and sizes of the values that are too long; members {relation, id, name, state, …} of other tasks:
--         "parent" that has not succeeded, "follower", "holder" of its concurrency limit, or of the unique key; workers {id, heartbeat_ms,
--         report, …}; versions {worker, version, …}; run_times the last 48 counters of the name in each of 180 minutes
-- Cost: O(log n), and a search of 4,000 entries of lists, 500 tasks of the flow, 200 workers and 200 entries of the trash
local base = KEYS[1]
local id = ARGV[1]
local max_bytes = tonumber(ARGV[2])
local errors = tonumber(ARGV[3])
-- @include entry_time
-- @include group_placement
-- @include times
-- @include deploys
-- @include name_counters
-- @include worker_reports
-- @lazy groups: rank_in_group, is_group_paused
-- @lazy limit_queue: limits_of, limit_turns
-- @lazy unique: was_purged
-- @lazy flow: parse_ref, node, join_chunks

local ctx = new_context(base)
local record = task_key(ctx, id)
-- Entries of a list that are searched from each end and around the expected place; members that are returned of each
-- relation; tasks of a flow, workers and entries of the trash that are looked at.
local SEARCHED, MAX_MEMBERS, MAX_FLOW, MAX_WORKERS, MAX_TRASH = 1000, 5, 500, 200, 200
local NAMES = {
  F.queue, F.task_name, F.body, F.enqueued_at_us, F.state, F.due_at_ms, F.placed_at_us, F.priority, F.unique_claim,
  F.expiry, F.concurrency, F.rate, F.fair_share, F.max_deliveries, F.metadata, F.flow_ref, F.on_failure, F.lease,
  F.leased_at_us, F.first_leased_at_us, F.finished_at_us, F.attempts, F.runs, F.deliveries, F.worker_ids, F.history,
  F.return_value, F.cancel_request, F.origin, F.cursor, F.batch, F.batch_calls, F.failure_uncounted,
}

-- An id such as "x:errors" names another key of a task, of another type.
local queue = redis.pcall("HGET", record, F.queue)
if type(queue) ~= "string" then
  return {}
end
local state, placed_us, enqueued_us, expiry, worker_ids, claim, flow_ref, lease, name = unpack(redis.call("HMGET", record,
  F.state, F.placed_at_us, F.enqueued_at_us, F.expiry, F.worker_ids, F.unique_claim, F.flow_ref, F.lease, F.task_name))

local facts, members = {}, {}
local function add_fact(name, value)
  facts[#facts + 1], facts[#facts + 2] = name, value
end
local function add_member(relation, other)
  local name, own_state = unpack(redis.call("HMGET", task_key(ctx, other), F.task_name, F.state))
  for _, value in ipairs({ relation, other, name or "", own_state or "" }) do
    members[#members + 1] = value
  end
end

local function part_key(part)
  return queue_key(ctx, queue, part)
end

-- Return the trash that has a failed or unregistered task, of the latest.
local function trash_of(part)
  for _, name in ipairs(redis.call("ZREVRANGE", base_key(ctx, K.trash_index), 0, MAX_TRASH - 1)) do
    local trash = string.sub(name, 1, #queue + 1) == queue .. "/" and string.sub(name, #queue + 2)
    if trash and redis.call("ZSCORE", base_key(ctx, K.trash, trash .. ":" .. part), id) then
      return trash
    end
  end
end

local function add_place(place, ahead, higher, is_exact)
  add_fact("place", place)
  add_fact("ahead", ahead)
  add_fact("higher", higher or 0)
  add_fact("is_exact", is_exact == false and 0 or 1)
end

-- Add where a task waits for a limit, and behind how many; return whether it does.
local function is_limited(limits)
  for place, limit in pairs({ concurrency = limits.concurrency, rate = limits.rate }) do
    local entry = place == "concurrency" and limits.concurrency_entry or limits.rate_entry
    if redis.call("ZSCORE", part_key(P.limited), entry) then
      if limits.group then
        add_place(place, limit_queue().limit_turns().count_ahead(ctx, limit, queue, limits.group, entry))
      else
        add_place(place, redis.call("ZLEXCOUNT", part_key(P.limited), "[" .. limit .. "\t", "(" .. entry))
      end
      return true
    end
  end
end

-- Add the place of a task that waits for a worker, in the order of service: requeued, due, priority above 0, ready,
-- priority below 0.
local function add_ready_place(score)
  local priority, ready = part_key(P.priority), redis.call("LLEN", part_key(P.ready))
  local first = redis.call("LLEN", part_key(P.requeued))
  local due = redis.call("ZCOUNT", part_key(P.scheduled), "-inf", ctx.now_ms)
  local urgent = redis.call("ZCOUNT", priority, "-inf", "(0")
  local rank = redis.call("ZSCORE", priority, id)
  if score then
    return add_place("ready", first + redis.call("ZRANK", part_key(P.scheduled), id))
  elseif rank then
    local level = -tonumber(redis.call("HGET", record, F.priority) or 0) * 1e13
    local behind_ready = tonumber(rank) >= 0 and ready or 0
    local higher = redis.call("ZCOUNT", priority, "-inf", string.format("(%.0f", level)) + behind_ready
    return add_place("ready", first + due + behind_ready + redis.call("ZRANK", priority, id), higher)
  end
  local index = index_in(part_key(P.requeued), id, SEARCHED)
  if index then
    return add_place("ready", index)
  end
  local expected = ready_rank(ctx, queue, entered_us(ctx, id) or 0)
  index = index_in(part_key(P.ready), id, SEARCHED, expected)
  local was_purged = not index and unique().was_purged(ctx, id, queue, state, placed_us or enqueued_us or 0)
  if index or ready > 2 * SEARCHED and expected < ready and not was_purged then
    return add_place("ready", first + due + urgent + (index or expected), urgent, index and true or false)
  end
  add_place(was_purged and "purged" or "", 0)
end

local function add_pending_place(limits)
  if limits and is_limited(limits) then
    return
  end
  local ahead, group = groups().rank_in_group(ctx, id, queue)
  if ahead then
    add_fact("is_group_paused", groups().is_group_paused(ctx, queue, group) and 1 or 0)
    local turn = tonumber(redis.call("ZSCORE", part_key(P.turns), group) or 0)
    if turn >= TURN.filling then
      add_fact("batch_start_ms", string.format("%.0f", turn - TURN.filling))
    end
    return add_place("group", ahead)
  end
  local score = redis.call("ZSCORE", part_key(P.scheduled), id)
  if score and math.ceil(score) > ctx.now_ms then
    add_place("scheduled", 0)
    add_fact("due_ms", string.format("%.0f", math.ceil(score)))
    if limits and limits.rate then
      add_fact("is_reserved", redis.call("HGET", part_key(P.reserved), limits.rate) == limits.rate_entry and 1 or 0)
    end
  else
    add_ready_place(score)
  end
end

local function add_limits(limits)
  if limits.concurrency then
    local holders = base_key(ctx, K.holders, limits.concurrency)
    add_fact("max_running", redis.call("GET", base_key(ctx, K.limit, limits.concurrency)) or limits.max_running)
    add_fact("holders", redis.call("ZCARD", holders))
    add_fact("is_holder", redis.call("ZSCORE", holders, id) and 1 or 0)
    for _, holder in ipairs(redis.call("ZRANGE", holders, 0, MAX_MEMBERS - 1)) do
      add_member("holder", holder)
    end
  end
  if limits.rate then
    add_fact("rate", redis.call("GET", base_key(ctx, K.limit, limits.rate)) or limits.rate_numbers)
    add_fact("next_us", redis.call("GET", base_key(ctx, K.rate, limits.rate)) or "0")
  end
end

-- Add the flow, the parents that have not succeeded, and the followers. Parents have lower numbers.
local function add_flow(flow_ref)
  local flows = flow()
  local key, number = flows.parse_ref(ctx, flow_ref)
  local tasks, added, unfinished, parents = unpack(redis.call("HMGET", key, FLOW.tasks, FLOW.added, FLOW.unfinished,
    FLOW.open_parents .. number))
  if not tasks then
    return
  end
  add_fact("flow_tasks", (tonumber(tasks) or 0) + (tonumber(added) or 0))
  add_fact("flow_unfinished", unfinished or 0)
  add_fact("open_parents", parents or 0)
  local callback = number - (tonumber(tasks) or number) + 1 -- 1: on_error, 2: on_complete, 3: on_success; added tasks are behind
  add_fact("callback", callback > 0 and callback <= 3 and callback or 0)
  local listed, last = 0, tonumber(number) - 1
  for position = last, math.max(0, last - MAX_FLOW), -1 do
    local other, followers = flows.node(key, position)
    followers = string.gsub(flows.join_chunks(key, position, followers or "", math.huge), ";", ",")
    if listed < MAX_MEMBERS and other and string.find("," .. followers .. ",", "," .. number .. ",", 1, true)
      and redis.call("HGET", task_key(ctx, other), F.state) ~= S.successful
      and redis.call("HEXISTS", key, FLOW.failure .. other) == 0 then
      add_member("parent", other)
      listed = listed + 1
    end
  end
  local count, _, followers = 0, flows.node(key, number)
  for follower in string.gmatch(flows.join_chunks(key, number, followers or "", math.huge), "%d+") do
    local other = count < MAX_MEMBERS and flows.node(key, follower)
    if other then
      add_member("follower", other)
    end
    count = count + 1
  end
  add_fact("followers", count)
end

local fields, sizes = {}, {}
for _, name in ipairs(NAMES) do
  local size = redis.call("HSTRLEN", record, name)
  if size > max_bytes then
    sizes[#sizes + 1], sizes[#sizes + 2] = name, size
  elseif redis.call("HEXISTS", record, name) == 1 then
    fields[#fields + 1], fields[#fields + 2] = name, redis.call("HGET", record, name)
  end
end

local limits = limit_queue().limits_of(ctx, id, queue)
if not state or state == S.ready or state == S.scheduled or state == S.retrying then
  add_pending_place(limits)
elseif state == S.failed or state == S.unregistered or state == S.running or state == S.waiting then
  local score = redis.call("ZSCORE", part_key(state), id)
  local can_be_in_trash = not score and (state == S.failed or state == S.unregistered)
  add_place(score and state or can_be_in_trash and trash_of(state) and "trash" or "", 0)
  add_fact("score_ms", score or "0")
end
add_fact("has_expired", has_expired(ctx, expiry, worker_ids) and 1 or 0)
local pause = redis.call("HGET", base_key(ctx, K.paused), queue)
add_fact("paused", pause and not has_pause_ended(ctx, pause) and pause or "")
add_fact("ttl_ms", redis.call("PTTL", record))
add_fact("errors", redis.call("LLEN", record .. ":errors"))
if limits then
  add_limits(limits)
end
local holder = claim and redis.call("GET", base_key(ctx, K.unique, string.sub(claim, 2)))
if holder then
  add_member("unique", holder)
end
if flow_ref then
  add_flow(flow_ref)
end

local workers = reports_of(ctx, part_key(P.workers), MAX_WORKERS)

local versions = versions_of(ctx, (worker_ids or "") .. "," .. string.match(lease or "", "^[^/]*"))
local run_times = minutes_of(ctx, queue, numbers_of(ctx, queue, name or ""), RUN_TIMES)
return {
  string.format("%.0f", ctx.now_us), fields, sizes, redis.call("LRANGE", record .. ":errors", -errors, -1), facts,
  members, workers, versions, run_times,
}
