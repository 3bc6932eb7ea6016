-- Counting a hit, for algorithms with one record per rate.
-- @include record
-- @lazy penalties: block_left, count_denial

-- Count the hit in all rates at keys[2..] or in none, and return the script's reply. `evaluate(index, time_us, number)`
-- takes the record of the rate at keys[index] and returns: whether the hit fits, time and number as of now, both after
-- the hit, and the microseconds to keep the new record.
local function count_hit(penalty_key, keys, id, denials, block_us, now_us, evaluate)
  -- A page that only reads may not correct what the clock, set back, has made wrong: its write is refused.
  local correct = id == "" and redis.pcall or redis.call
  local left_us, went_back
  if denials ~= 0 then
    left_us, went_back = penalties().block_left(penalty_key, block_us, now_us, correct)
  end
  if left_us and not went_back then -- if the clock went back, the rates below are corrected too
    return { -1, left_us }
  end
  local last = #keys
  local allowed, repeated = true, false
  local reply, updates = { 1, 0, 0 }, last > 2 and {}
  local time_us, number, ids, is_stale, blocked_us, author, fits, next_us, next_number, ttl_us
  for index = 2, last do
    time_us, number, ids, is_stale, blocked_us, author = read_record(keys[index], now_us)
    if blocked_us then
      return { -2, blocked_us, author }
    end
    fits, time_us, number, next_us, next_number, ttl_us = evaluate(index, time_us, number)
    if is_stale then -- the only write of a denied hit, and of a call without an id
      write_record(keys[index], now_us, time_us, number, ids, ttl_us, correct)
    end
    if not fits then
      allowed = false
    end
    repeated = repeated or has_id(ids, id)
    reply[2 * index - 2], reply[2 * index - 1] = time_us - now_us, number
    if index < last then -- the last rate stays in locals: most limits have one rate, and a table costs a microsecond
      updates[index] = { next_us, next_number, add_id(ids, id), ttl_us }
    end
  end
  if left_us then
    return { -1, left_us }
  end
  if repeated then
    return reply
  end
  if not allowed then
    local blocked_us = denials > 0 and penalties().count_denial(penalty_key, id, denials, block_us, now_us)
    reply[1] = 0
    return blocked_us and { -1, blocked_us } or reply
  end
  if id ~= "" then
    for index = 2, last - 1 do
      local update = updates[index]
      write_record(keys[index], now_us, update[1], update[2], update[3], update[4])
      reply[2 * index - 2], reply[2 * index - 1] = update[1] - now_us, update[2]
    end
    write_record(keys[last], now_us, next_us, next_number, add_id(ids, id), ttl_us)
    reply[2 * last - 2], reply[2 * last - 1] = next_us - now_us, next_number
  end
  return reply
end
