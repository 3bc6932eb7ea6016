-- The course of a hit, for algorithms with a record for each rate; the end of the script that includes it.
-- Expects the locals id and now_us, what record and penalty define, and step(at, time_us, number), which tells of the
-- rate at KEYS[at]: whether the hit fits, time and number of its record as of now, both after the hit, and for how
-- many microseconds that is kept.
local last = #KEYS
local allowed, repeated = true, false
local reply, earlier = { 1, 0, 0 }, {}
local time_us, number, ids, went_back, fits, next_us, next_number, life_us
for at = 2, last do
  time_us, number, ids, went_back = read(KEYS[at])
  fits, time_us, number, next_us, next_number, life_us = step(at, time_us, number)
  if went_back and id ~= "" then -- a denied hit writes this, and nothing else
    write(KEYS[at], time_us, number, ids, life_us)
  end
  if not fits then
    allowed = false
  end
  repeated = repeated or knows(ids, id)
  reply[2 * at - 2], reply[2 * at - 1] = time_us - now_us, number
  if at < last then -- the last one stays in the locals: most limits have one rate, and a table costs a microsecond
    earlier[at] = { next_us, next_number, with(ids, id), life_us }
  end
end
if left_us then
  return { -1, left_us }
end
if repeated then
  return reply
end
if not allowed then
  local began_us = count_denial()
  reply[1] = 0
  return began_us and { -1, began_us } or reply
end
if id ~= "" then
  for at = 2, last - 1 do
    local each = earlier[at]
    write(KEYS[at], each[1], each[2], each[3], each[4])
    reply[2 * at - 2], reply[2 * at - 1] = each[1] - now_us, each[2]
  end
  write(KEYS[last], next_us, next_number, with(ids, id), life_us)
  reply[2 * last - 2], reply[2 * last - 1] = next_us - now_us, next_number
end
return reply
