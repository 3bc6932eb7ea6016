-- What finished tasks leave: their workers, errors and waiters.
-- @include context

-- Append a worker to the ids of those that ran a task. Of many, the latest stay; "+n," in front counts the dropped ones.
local function append_worker(worker_ids, worker)
  local all = worker_ids and (worker_ids .. "," .. worker) or worker
  while #all > 4000 do
    local dropped, rest = string.match(all, "^%+(%d+),[^,]*,(.+)$")
    if string.sub(all, 1, 1) ~= "+" then
      dropped, rest = 0, string.match(all, "^[^,]*,(.+)$")
    end
    if not rest then
      break
    end
    all = string.format("+%d,%s", dropped + 1, rest)
  end
  return all
end

-- Notify the clients that wait for the result; `waiters` is the record's field.
local function notify_waiters(ctx, id, waiters)
  if waiters then
    local done = task_key(ctx, id) .. ":done"
    for _ = 1, math.min(tonumber(waiters), 1000) do
      redis.call("RPUSH", done, "1")
    end
    redis.call("PEXPIRE", done, T.wakeup_ms)
  end
end

local function add_error(ctx, id, error_json, ttl_ms)
  local errors = task_key(ctx, id) .. ":errors"
  if redis.call("RPUSH", errors, error_json) > 50 then
    redis.call("LTRIM", errors, -50, -1)
  end
  redis.call("PEXPIRE", errors, ttl_ms)
end
