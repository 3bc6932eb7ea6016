-- Who is denied `most` times within `block_us` is blocked for `block_us`. Until then the record at `penalty` holds the
-- time of the first of these denials and their number; from then on the time at which the block ends, and `most`.
-- Expects the locals penalty, id, denials, block_us, now_us, and what record defines.
local most = math.abs(denials)

-- Microseconds until the block ends; nil if there is none.
local function blocked_us()
  local until_us, count = read(penalty)
  if until_us and count >= most and until_us > now_us then
    return math.min(until_us - now_us, block_us)
  end
  return nil
end

-- Counts a denial; the microseconds of the block that it begins, or nil.
local function count_denial()
  if denials <= 0 or id == "" then
    return nil
  end
  local since_us, count, ids = read(penalty)
  if knows(ids, id) then
    return nil
  end
  if not since_us or count >= most or since_us > now_us or since_us + block_us <= now_us then
    since_us, count = now_us, 0
  end
  if count + 1 >= most then
    write(penalty, now_us + block_us, most, with(ids, id), block_us)
    return block_us
  end
  write(penalty, since_us, count + 1, with(ids, id), since_us + block_us - now_us)
  return nil
end

local left_us = most > 0 and blocked_us()
if left_us then
  return { -1, left_us }
end
