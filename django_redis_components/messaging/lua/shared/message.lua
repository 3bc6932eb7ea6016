-- @include chat
local NO_MESSAGE, NOT_SENDER = -3, -4

-- Return 1 if a user may change a message, or a code.
local function check_sender(keys, user, id)
  local seen, code = last_seen(keys, user)
  if not seen then
    return code
  end
  local entry = redis.call("XRANGE", keys.log, id .. "-0", id .. "-0")[1]
  if not entry then
    return NO_MESSAGE
  end
  return entry[2][2] == user and 1 or NOT_SENDER
end

-- Remove a message from the log, which keeps its id.
local function remove_message(keys, id)
  redis.call("XDEL", keys.log, id .. "-0")
  redis.call("ZREMRANGEBYSCORE", keys.edits, id, id)
  redis.call("ZADD", keys.deleted, id, id)
  redis.call("HINCRBY", keys.meta, "revision", 1)
end
