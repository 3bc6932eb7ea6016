-- The trash of a purge or a deletion: its tasks by the part of the queue from which they were removed.
-- @include context

-- Pending tasks, in the order in which they would have been served.
local PENDING = { P.requeued, P.limited, P.ready, P.priority, P.scheduled, P.grouped }
local PARTS = { P.requeued, P.limited, P.ready, P.priority, P.scheduled, P.grouped, P.failed, P.unregistered }

local function trash_key(ctx, trash, part)
  return base_key(ctx, K.trash, trash .. ":" .. part)
end

-- Pop up to `limit` tasks: {id, part, score of one that was in a zset by score}.
local function pop_trash(ctx, trash, limit)
  local popped = {}
  for _, part in ipairs(PARTS) do
    local key, room = trash_key(ctx, trash, part), limit - #popped
    if room > 0 and (part == P.requeued or part == P.ready) then
      for _, id in ipairs(redis.call("LPOP", key, room) or {}) do
        popped[#popped + 1] = { id, part }
      end
    elseif room > 0 then
      local members = redis.call("ZPOPMIN", key, room)
      for index = 1, #members, 2 do
        local score = part ~= P.limited and part ~= P.grouped and members[index + 1]
        popped[#popped + 1] = { string.match(members[index], "[^\t]+$"), part, score }
      end
    end
  end
  return popped
end

local function has_trash(ctx, trash)
  local count = 0
  for _, part in ipairs(PARTS) do
    count = count + redis.call("EXISTS", trash_key(ctx, trash, part))
  end
  return count > 0
end
