-- List a task that finished outside of a run. Another client may have written its record.
-- Reads in ctx: finished_limit, finished_ttl_ms.
-- @include finished_list

-- Bytes of a message that a row has; as in store/job.py.
local MAX_MESSAGE = 256

local function list_unrun(ctx, id, state)
  if ctx.finished_limit == 0 then
    return
  end
  local queue, name, body, enqueued_us, leased_us, first_us, attempts, worker_ids = unpack(redis.call("HMGET",
    task_key(ctx, id), F.queue, F.task_name, F.body, F.enqueued_at_us, F.leased_at_us, F.first_leased_at_us, F.attempts,
    F.worker_ids))
  local finish = finish_text(string.format("%.0f", ctx.now_us), string.match(worker_ids or "", "[^,]*$"))
  local earlier, message = (first_us or "") .. "\t" .. (attempts or ""), string.sub(body or "", 1, MAX_MESSAGE)
  add_rows(ctx, queue, state,
    { row(id, finish, enqueued_us or "", leased_us or "", "", earlier, name or "", message) })
end
