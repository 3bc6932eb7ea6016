-- The penalty: `denials` denials within any `block_us` start a block of `block_us`. The list at `key` stores the last
-- `denials` - 1 denials, oldest first, each a time in microseconds and the id of its call; or a single item that is a
-- block, with its start.
local DENIAL, BLOCK = ">dc8", ">db"
local BLOCK_BYTES = 9
-- Only the newest denials can be repeated calls, as in a record.
local REPEATABLE = 8

local function replace_list(key, item, block_us, call)
  call("DEL", key)
  call("RPUSH", key, item)
  call("PEXPIRE", key, math.ceil(block_us / 1000))
end

-- Return the microseconds until the block ends, or nil without one, and whether the clock went back since its start.
-- If it did, the block starts again, which is written with `correct`.
local function block_left(key, block_us, now_us, correct)
  local item = redis.call("LINDEX", key, 0)
  if not item or #item ~= BLOCK_BYTES then
    return nil, false
  end
  local ends_us = struct.unpack(BLOCK, item) + block_us
  if ends_us > now_us + block_us then
    replace_list(key, struct.pack(BLOCK, now_us, 1), block_us, correct)
    return block_us, true
  end
  return ends_us > now_us and ends_us - now_us or nil, false
end

-- Return whether this call is counted already, and whether the list is obsolete: a block that has ended, or denials
-- of a time that the clock, set back, has not reached.
local function check_denials(key, id, now_us)
  local newest = redis.call("LRANGE", key, -REPEATABLE, -1)
  if #newest == 0 then
    return false, false
  end
  local last = newest[#newest]
  if #last == BLOCK_BYTES or struct.unpack(DENIAL, last) > now_us then
    return false, true
  end
  for _, item in ipairs(newest) do
    if string.sub(item, 9) == id then
      return true, false
    end
  end
  return false, false
end

-- Count a denial. Return the microseconds of the block that it starts, or nil.
local function count_denial(key, id, denials, block_us, now_us)
  if id == "" then
    return nil
  end
  local repeated, obsolete = check_denials(key, id, now_us)
  if repeated then
    return nil
  end
  local first = denials == 1 or (not obsolete and redis.call("LINDEX", key, 1 - denials))
  if first and (denials == 1 or struct.unpack(DENIAL, first) > now_us - block_us) then
    replace_list(key, struct.pack(BLOCK, now_us, 1), block_us, redis.call)
    return block_us
  end
  local item = struct.pack(DENIAL, now_us, id)
  if obsolete then
    replace_list(key, item, block_us, redis.call)
  else
    redis.call("RPUSH", key, item)
    redis.call("LTRIM", key, 1 - denials, -1)
    redis.call("PEXPIRE", key, math.ceil(block_us / 1000))
  end
  return nil
end
