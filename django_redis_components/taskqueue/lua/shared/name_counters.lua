-- Counters of one task name in a queue, see counters.lua.
-- @include context

-- Bytes of a counter set; task names that have one in each hour.
local SET_BYTES, MAX_NAMES = 416, 30
-- Minutes that are kept; the first byte of a set, and of its run times.
local MINUTES, COUNTERS, RUN_TIMES = 180, 0, 224

-- Return {ago, counters, …} of the minutes that have any, from a byte of the set on, the latest first; and whether in some hour the
-- name was not counted because others had taken all numbers.
local function minutes_of(ctx, queue, name, first_byte)
  local minutes, is_partial, numbers = {}, false, {}
  local latest = math.floor(ctx.now_ms / 60000)
  for ago = 0, MINUTES - 1 do
    local hour = math.floor((latest - ago) / 60)
    if numbers[hour] == nil then
      local names = queue_key(ctx, queue, P.task_names .. ":" .. hour)
      numbers[hour] = tonumber(redis.call("HGET", names, string.sub(name, 1, 200))) or false
      is_partial = is_partial or not numbers[hour] and redis.call("HLEN", names) >= MAX_NAMES
    end
    if numbers[hour] then
      local first = numbers[hour] * SET_BYTES
      local key = queue_key(ctx, queue, P.minute .. ":" .. (latest - ago))
      local counters = redis.call("GETRANGE", key, first + first_byte, first + SET_BYTES - 1)
      if counters ~= "" then
        minutes[#minutes + 1], minutes[#minutes + 2] = ago, counters
      end
    end
  end
  return minutes, is_partial
end
