-- Find the tasks of a queue that a worker has leased.
-- @include context

-- Among a range of the running tasks of the queue, by rank. Return how many were examined, and {id, token, enqueued_us}
-- of each task that this worker has leased.
local function find_leases(ctx, queue, worker, offset, limit)
  local ids = redis.call("ZRANGE", queue_key(ctx, queue, P.running), offset, offset + limit - 1)
  local leases = {}
  for _, id in ipairs(ids) do
    local token, state, enqueued_us = unpack(redis.call("HMGET", task_key(ctx, id), F.lease, F.state, F.enqueued_at_us))
    if token and state == S.running and string.match(token, "^[^/]*") == worker then
      leases[#leases + 1] = { id, token, enqueued_us }
    end
  end
  return #ids, leases
end
