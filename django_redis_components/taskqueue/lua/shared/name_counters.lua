-- Counters of one task name in a queue, see counters.lua.
-- @include context

-- Bytes of a counter set; task names that have one in each hour.
local SET_BYTES, MAX_NAMES = 416, 30
-- Minutes that are kept; the first byte of a set, and of its run times.
local MINUTES, COUNTERS, RUN_TIMES = 180, 0, 224

-- Return the number of the name's counters by hour, nil without any; and whether in some hour others had taken all numbers.
local function numbers_of(ctx, queue, name)
  local numbers, is_partial
  local hour, keys = math.floor(ctx.now_ms / 3600000), {}
  for ago = 0, MINUTES / 60 do
    keys[ago + 1] = queue_key(ctx, queue, P.task_names .. ":" .. (hour - ago))
  end
  if redis.call("EXISTS", unpack(keys)) == 0 then -- most of many queues
    return nil, false
  end
  for ago, names in ipairs(keys) do
    local number = tonumber(redis.call("HGET", names, string.sub(name, 1, 200)))
    if number then
      numbers = numbers or {}
      numbers[hour - ago + 1] = number
    elseif redis.call("HLEN", names) >= MAX_NAMES then
      is_partial = true
    end
  end
  return numbers, is_partial
end

-- Return {ago, counters, …} of the minutes that have any, from a byte of the set on, the latest first.
local function minutes_of(ctx, queue, numbers, first_byte)
  local minutes = {}
  local latest = math.floor(ctx.now_ms / 60000)
  for ago = 0, numbers and MINUTES - 1 or -1 do
    local number = numbers[math.floor((latest - ago) / 60)]
    if number then
      local first = number * SET_BYTES
      local key = queue_key(ctx, queue, P.minute .. ":" .. (latest - ago))
      local counters = redis.call("GETRANGE", key, first + first_byte, first + SET_BYTES - 1)
      if counters ~= "" then
        minutes[#minutes + 1], minutes[#minutes + 2] = ago, counters
      end
    end
  end
  return minutes
end
