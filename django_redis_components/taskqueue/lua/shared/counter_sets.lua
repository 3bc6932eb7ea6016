-- Counter sets as lists of numbers, to be added up.

-- Bytes of 8 numbers. Most numbers of a set are 0: comparing 8 of them takes less time than adding them.
local BLOCK = 32
local ZEROS = string.rep("\0", BLOCK)
local EIGHT = ">" .. string.rep("I4", BLOCK / 4)

-- Return the counters of a key as they are stored; "" without the key.
local function read_counters(key)
  return redis.call("GETRANGE", key, "0", "415")
end

-- Return a sum of no counters.
local function new_sum()
  local sum = {}
  for index = 1, 104 do
    sum[index] = 0
  end
  return sum
end

local function add_counters(sum, counters)
  for start = 0, #counters - 1, BLOCK do
    local block = string.sub(counters, start + 1, start + BLOCK)
    if block ~= ZEROS then
      local numbers = { struct.unpack(EIGHT, #block == BLOCK and block or block .. string.sub(ZEROS, #block + 1)) }
      for index = 1, BLOCK / 4 do
        sum[start / 4 + index] = sum[start / 4 + index] + numbers[index]
      end
    end
  end
end

-- Return the arguments of a BITFIELD that adds a list of counters; nil if all are zero.
local function additions(numbers)
  local add, size = { "BITFIELD", "", "OVERFLOW", "" }, 4
  for index, number in ipairs(numbers) do
    if number > 0 then
      add[size + 1], add[size + 2], add[size + 3], add[size + 4] = "INCRBY", "u32", "#" .. index - 1, number
      size = size + 4
    end
  end
  return size > 4 and add or nil
end

-- Add to the counters of a key.
local function add_to(key, overflow, add, ttl_ms)
  add[2], add[4] = key, overflow
  redis.call(unpack(add))
  redis.call("PEXPIRE", key, ttl_ms)
end
