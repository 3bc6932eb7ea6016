-- The penalty: `most` denials within any `block_us` block for `block_us`. The list at `penalty` holds the last
-- `most` - 1 denials, oldest first, each a time in microseconds and the id of its call; or one item that is a block,
-- with the time at which it began.
-- Expects the locals penalty, id, denials, block_us and now_us.
local most = math.abs(denials)
local DENIAL, BLOCK = ">dc8", ">db"
local BLOCK_BYTES = 9
-- Only the newest denials can be repeated calls, as in a record.
local REPEATABLE = 8

local function keep_list(items)
  redis.call("DEL", penalty)
  redis.call("RPUSH", penalty, items)
  redis.call("PEXPIRE", penalty, math.ceil(block_us / 1000))
end

-- Microseconds until the block ends, nil if there is none; and whether the clock went back since it began. Then the
-- block begins anew.
local function blocked_us()
  local item = redis.call("LINDEX", penalty, 0)
  if not item or #item ~= BLOCK_BYTES then
    return nil, false
  end
  local ends_us = struct.unpack(BLOCK, item) + block_us
  if ends_us > now_us + block_us then
    if id ~= "" then
      keep_list(struct.pack(BLOCK, now_us, 1))
    end
    return block_us, true
  end
  return ends_us > now_us and ends_us - now_us or nil, false
end

-- Whether this call was counted before, and whether the stored denials are none to count on: a block that is over, or
-- denials of a time that the clock, set back, has not reached.
local function stored_denials()
  local newest = redis.call("LRANGE", penalty, -REPEATABLE, -1)
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

-- Counts a denial; the microseconds of the block that it begins, or nil.
local function count_denial()
  if denials <= 0 or id == "" then
    return nil
  end
  local repeated, useless = stored_denials()
  if repeated then
    return nil
  end
  local first = most == 1 or (not useless and redis.call("LINDEX", penalty, 1 - most))
  if first and (most == 1 or struct.unpack(DENIAL, first) > now_us - block_us) then
    keep_list(struct.pack(BLOCK, now_us, 1))
    return block_us
  end
  local item = struct.pack(DENIAL, now_us, id)
  if useless then
    keep_list(item)
  else
    redis.call("RPUSH", penalty, item)
    redis.call("LTRIM", penalty, 1 - most, -1)
    redis.call("PEXPIRE", penalty, math.ceil(block_us / 1000))
  end
  return nil
end

local left_us, block_went_back
if most > 0 then
  left_us, block_went_back = blocked_us()
end
-- If the clock went back, the script goes on to correct the rates too, and returns this afterwards.
if left_us and not block_went_back then
  return { -1, left_us }
end
