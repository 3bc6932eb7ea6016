-- Commands to supervisors: base:commands:<supervisor> has "until_ms at_ms op verb target author" of each.
-- @include context

-- Most commands that wait for one supervisor.
local MAX_COMMANDS = 20

-- Return the commands that wait for a supervisor, without those that have expired.
local function waiting_commands(ctx, supervisor)
  local found = {}
  for _, entry in ipairs(redis.call("LRANGE", base_key(ctx, K.commands, supervisor), 0, MAX_COMMANDS - 1)) do
    if tonumber(string.match(entry, "^%d+") or 0) > ctx.now_ms then
      found[#found + 1] = entry
    end
  end
  return found
end

-- Remove the commands that a supervisor has executed, and those that have expired. Return the others.
local function remove_executed(ctx, supervisor, executed)
  local waiting, is_waiting = {}, {}
  local key = base_key(ctx, K.commands, supervisor)
  if redis.call("EXISTS", key) == 0 then
    return waiting
  end
  for _, entry in ipairs(waiting_commands(ctx, supervisor)) do
    if not string.find(executed, " " .. (string.match(entry, "^%d+ %d+ (%S+)") or "") .. " ", 1, true) then
      waiting[#waiting + 1] = entry
      is_waiting[entry] = true
    end
  end
  for _, entry in ipairs(redis.call("LRANGE", key, 0, MAX_COMMANDS - 1)) do
    if not is_waiting[entry] then
      redis.call("LREM", key, 1, entry)
    end
  end
  return waiting
end
