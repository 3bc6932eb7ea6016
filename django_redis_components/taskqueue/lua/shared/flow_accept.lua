-- Writing the record and the node of a task of a flow; args[first] to args[last] are the arguments of enqueue.lua.
-- @include context
-- @include limit_key
-- @include flow_followers: store_followers

-- Write the record of a task, with further pairs of field and value.
local function accept_record(ctx, args, first, last, ...)
  local id, queue = unpack(args, first, first + 1)
  redis.call("HSET", task_key(ctx, id), F.queue, queue, F.enqueued_at_us, ctx.now_us, F.state, S.waiting, ...)
  redis.call("HSET", task_key(ctx, id), unpack(args, first + 6, last))
  store_limits(ctx, args, first + 6, last)
end

local function accept_node(ctx, key, flow_id, number, followers, args, first, last)
  local id, _, due, _, _, expires = unpack(args, first, first + 5)
  accept_record(ctx, args, first, last, F.flow_ref, flow_id .. "/" .. number)
  redis.call("HSET", key, number, id .. " " .. store_followers(key, number, followers))
  if due ~= "" then
    redis.call("HSET", key, FLOW.due .. number, due)
  end
  if expires ~= "" then
    redis.call("HSET", key, FLOW.expires .. number, expires)
  end
end
