-- @include chat
local NO_MESSAGE, NOT_SENDER = -3, -4

-- Return 1 and the entry if a user may change a message, or a code.
local function check_sender(keys, user, id)
  local seen, code = last_seen(keys, user)
  if not seen then
    return code
  end
  local entry = redis.call("XRANGE", keys.log, id .. "-0", id .. "-0")[1]
  if not entry then
    return NO_MESSAGE
  end
  if entry[2][2] ~= user then
    return NOT_SENDER
  end
  return 1, entry
end

-- Remove the edit of a message; return its bytes.
local function remove_edit(keys, entry)
  local edit = edits_of(keys.edits, { entry })[1]
  if not edit then
    return 0
  end
  redis.call("ZREM", keys.edits, edit)
  return #edit
end

-- Remove a message from the log, which keeps its id.
local function remove_message(keys, entry)
  local id, bytes = number_of(entry), #entry[2][4] + remove_edit(keys, entry)
  redis.call("XDEL", keys.log, entry[1])
  redis.call("ZADD", keys.deleted, id, id)
  redis.call("HINCRBY", keys.meta, "revision", 1)
  redis.call("HINCRBY", keys.meta, "bytes", -bytes)
end
