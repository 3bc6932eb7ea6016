-- List workers by id, with their reports and the commands that wait for their supervisors. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] after  the id before the first one; empty: from the start
-- ARGV[2] supervisor  id: only its workers; empty: all
-- ARGV[3] limit  most workers that are returned, at most 200
-- ARGV[4] lease_ms  duration of a lease: a worker without a heartbeat for so long is lost
-- ARGV[5] state  alive or lost: only those; empty: all
-- ARGV[6] version  of the code: only its workers; empty: all
-- ARGV[7] host  only its workers; empty: all
-- DERIVED base:workers zset, base:worker:<worker> string, base:commands:<supervisor> list, base:poller string,
--         base:versions, :deploys zsets
-- Returns {now_us, poller, total, live, has_more, rows, commands, matched, counts}: poller empty without an active one; total of the 5,000
--         workers with the latest heartbeats, and how many of them are not lost; each row {id, seen_ms, report}, the
--         report empty if it has expired; commands as `Key.commands` states; matched is
--         how many pass the filters; counts {states, versions, hosts}, each {value, workers, …} of those that pass the other two
-- Cost: O(n log n) for n workers, at most 5,000
local base = KEYS[1]
local after = ARGV[1]
local supervisor = ARGV[2]
local limit = tonumber(ARGV[3])
local lease_ms = tonumber(ARGV[4])
local state, version, host = ARGV[5], ARGV[6], ARGV[7]
-- @include commands
-- @include deploys: supervisor_of, host_of

local ctx = new_context(base)

-- Return the versions by supervisor.
local function all_versions()
  local names, found = {}, {}
  local deploys = redis.call("ZRANGE", base_key(ctx, K.deploys), 0, -1, "WITHSCORES")
  for index = 1, #deploys, 2 do
    names[deploys[index + 1]] = deploys[index]
  end
  local versions = redis.call("ZRANGE", base_key(ctx, K.versions), 0, -1, "WITHSCORES")
  for index = 1, #versions, 2 do
    found[versions[index]] = names[versions[index + 1]]
  end
  return found
end

local function add(counts, value, wanted)
  if wanted and value and value ~= "" then
    counts[value] = (counts[value] or 0) + 1
  end
end

local function flat(counts)
  local list = {}
  for value, count in pairs(counts) do
    list[#list + 1], list[#list + 2] = value, count
  end
  return list
end

local heartbeats = redis.call("ZREVRANGE", base_key(ctx, K.workers), 0, 4999, "WITHSCORES")
local ids, seen, total, live, matched = {}, {}, 0, 0, 0
local versions, states_by, versions_by, hosts_by = all_versions(), {}, {}, {}
for index = 1, #heartbeats, 2 do
  local id = heartbeats[index]
  if supervisor == "" or supervisor_of(id) == supervisor then
    total = total + 1
    seen[id] = tonumber(heartbeats[index + 1])
    local own_state = seen[id] >= ctx.now_ms - lease_ms and "alive" or "lost"
    live = live + (own_state == "alive" and 1 or 0)
    local own_version, own_host = versions[supervisor_of(id)], host_of(id)
    local is_of_state = state == "" or state == own_state
    local is_of_version, is_of_host = version == "" or version == own_version, host == "" or host == own_host
    add(states_by, own_state, is_of_version and is_of_host)
    add(versions_by, own_version, is_of_state and is_of_host)
    add(hosts_by, own_host, is_of_state and is_of_version)
    if is_of_state and is_of_version and is_of_host then
      matched = matched + 1
      if id > after then
        ids[#ids + 1] = id
      end
    end
  end
end
table.sort(ids)
local has_more = #ids > limit and 1 or 0
local rows, commands, has_read = {}, {}, {}
for index = 1, math.min(#ids, limit) do
  local id = ids[index]
  rows[index] = { id, string.format("%.0f", seen[id]), redis.call("GET", base_key(ctx, K.worker, id)) or "" }
  local own = supervisor_of(id)
  if not has_read[own] then
    has_read[own] = true
    for _, entry in ipairs(pending_commands(ctx, own)) do
      commands[#commands + 1] = entry
    end
  end
end
return {
  ctx.now_us, redis.call("GET", base_key(ctx, K.poller)) or "", total, live, has_more, rows, commands, matched,
  { flat(states_by), flat(versions_by), flat(hosts_by) },
}
