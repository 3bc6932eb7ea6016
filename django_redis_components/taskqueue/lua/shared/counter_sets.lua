-- Counter sets as lists of numbers, to be added up.

-- Return the counters of a key: a list, empty without the key.
local function read_numbers(key)
  local data = redis.call("GETRANGE", key, 0, 415)
  local size = math.floor(#data / 4)
  local numbers = { struct.unpack(">" .. string.rep("I4", size), data) }
  numbers[size + 1] = nil -- the position behind them
  return numbers
end

local function add_numbers(sum, numbers)
  for index, number in ipairs(numbers) do
    sum[index] = (sum[index] or 0) + number
  end
end
