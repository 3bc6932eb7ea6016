-- Commands to supervisors: base:commands:<supervisor> has "until_ms at_ms op verb target author" of each.
-- @include context

-- Most commands that wait for one supervisor.
local MAX_COMMANDS = 20

-- Return the commands that a supervisor has not executed, without those that have expired.
local function pending_commands(ctx, supervisor)
  local pending = {}
  for _, entry in ipairs(redis.call("LRANGE", base_key(ctx, K.commands, supervisor), 0, MAX_COMMANDS - 1)) do
    if tonumber(string.match(entry, "^%d+") or 0) > ctx.now_ms then
      pending[#pending + 1] = entry
    end
  end
  return pending
end

-- Remove the commands that a supervisor has executed, and those that have expired. Return the others.
local function remove_executed(ctx, supervisor, executed)
  local pending, is_pending = {}, {}
  local key = base_key(ctx, K.commands, supervisor)
  if redis.call("EXISTS", key) == 0 then
    return pending
  end
  for _, entry in ipairs(pending_commands(ctx, supervisor)) do
    if not string.find(executed, " " .. (string.match(entry, "^%d+ %d+ (%S+)") or "") .. " ", 1, true) then
      pending[#pending + 1] = entry
      is_pending[entry] = true
    end
  end
  for _, entry in ipairs(redis.call("LRANGE", key, 0, MAX_COMMANDS - 1)) do
    if not is_pending[entry] then
      redis.call("LREM", key, 1, entry)
    end
  end
  return pending
end
