-- @include context

-- Return a stored error without its traceback; empty if it is not one. In JSON no text within a string equals the search
-- text.
local function without_traceback(stored)
  local past = stored and string.find(stored, ',"traceback":', 1, true)
  return past and string.sub(stored, 1, past - 1) .. "}" or ""
end

-- Return the last error of a task; false if none is kept.
local function last_error(ctx, id)
  return redis.call("LINDEX", task_key(ctx, id) .. ":errors", -1)
end
