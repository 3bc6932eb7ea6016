-- Tasks of a list: which of them have a text, and their rows.
-- @include deploys
-- @include last_error
-- @include text_part

-- Largest message that is searched and returned.
local MAX_MESSAGE = 8192

local function is_in_message(message, part)
  return message and #message <= MAX_MESSAGE and has_part(message, part)
end

local function is_in_error(ctx, id, part)
  return has_part(without_traceback(last_error(ctx, id)), part)
end

-- Return whether a text is in the name or the last error of a task, or `message_part` in its message.
local function has_text(ctx, id, name, message, text, message_part)
  return has_part(name, text) or is_in_message(message, message_part) or is_in_error(ctx, id, text)
end

-- Return the row of a task as scan_tasks.lua returns it.
local function row_of(ctx, id, cursor, scanned)
  local record = task_key(ctx, id)
  local size = redis.call("HSTRLEN", record, F.body)
  local message = size <= MAX_MESSAGE and redis.call("HGET", record, F.body) or ""
  local fields = redis.call("HMGET", record, F.queue, F.task_name, F.state, F.enqueued_at_us, F.due_at_ms, F.priority,
    F.flow_ref, F.lease, F.leased_at_us, F.finished_at_us, F.worker_ids, F.attempts, F.runs)
  local worker = worker_of(fields[8], fields[11])
  local version = worker and version_of(ctx, worker) or ""
  return { id, size, message, without_traceback(last_error(ctx, id)), fields, cursor, scanned, version }
end
