-- Replies that are stored for as long as a client may repeat the call after a lost reply.
-- @include context

-- Return the reply of this operation, a list of integers, if it was executed before; else nil.
local function stored_reply(ctx, op)
  local stored = redis.call("GET", base_key(ctx, K.reply, op))
  if not stored then
    return nil
  end
  local values = {}
  for value in string.gmatch(stored, "%S+") do
    values[#values + 1] = tonumber(value)
  end
  return values
end

-- Store the reply and return it.
local function reply(ctx, op, values)
  redis.call("SET", base_key(ctx, K.reply, op), table.concat(values, " "), "PX", T.reply_ms)
  return values
end
