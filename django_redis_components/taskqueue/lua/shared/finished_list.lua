-- Lists of the newest finished tasks that are in no index: successful, cancelled and expired ones, a list for each state.
-- A row outlives the record. Its parts are between tabs: id, finished_us, worker, enqueued_us, leased_us, ran_us,
-- first_leased_us and attempts (both empty: only one run), name, and the start of the message. The newest row is the last.
-- Reads in ctx: finished_limit, finished_ttl_ms.
-- @include context

-- Rows beyond the limit that a list gets before it is trimmed, so that few calls do.
local ROOM = 100
-- Bytes of a name that a row has.
local MAX_NAME = 200

-- Return what follows the id in all rows of a call.
local function finish_text(finished_us, worker)
  return "\t" .. finished_us .. "\t" .. worker .. "\t"
end

-- Return a row. `finish` is a `finish_text`, `earlier` is first_leased_us and attempts.
local function row(id, finish, enqueued_us, leased_us, ran_us, earlier, name, message)
  name = #name <= MAX_NAME and name or string.sub(name, 1, MAX_NAME)
  return id .. finish .. enqueued_us .. "\t" .. leased_us .. "\t" .. ran_us .. "\t" .. earlier .. "\t" .. name .. "\t" .. message
end

-- Add rows to the list of a state, and delete the oldest ones beyond the limit. The poller renews the TTL of a list.
local function add_rows(ctx, queue, state, rows)
  local list = queue_key(ctx, queue, state)
  local length = redis.call("RPUSH", list, unpack(rows))
  if length > ctx.finished_limit + ROOM then
    redis.call("LTRIM", list, -ctx.finished_limit, -1)
  end
  if length == #rows then
    redis.call("PEXPIRE", list, ctx.finished_ttl_ms)
  end
end
