-- Counts a hit in windows that begin with the first hit in them, in all rates or in none.
-- Precondition: all rates have the same algorithm.
-- KEYS[1] penalty  string: a record, see shared/penalty.lua
-- KEYS[2..] rates  string: a record for each rate, the begin of its window and what was used in it
-- ARGV[1] id  8 bytes that name the call; empty: look only, write nothing
-- ARGV[2] denials  how many of them lead to a block; 0: no penalty; below 0: this call counts none
-- ARGV[3] block_us  microseconds of a block
-- ARGV[4] cost  what the hit uses
-- ARGV[5..] numbers  for each rate: limit, and its period in microseconds
-- Returns {1, used, left, ...}: allowed; for each rate what is used, and the microseconds until its window ends
-- Returns {0, used, left, ...}: denied, nothing was counted
-- Returns {-1, us}: blocked for so many microseconds
-- Cost: O(rates)
local penalty = KEYS[1]
local id, denials, block_us = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local cost = tonumber(ARGV[4])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include record
-- @include penalty

local left_us = blocked_us()
if left_us then
  return { -1, left_us }
end
local allowed, repeated = true, false
local reply, windows = { 1 }, {}
for at = 2, #KEYS do
  local limit, period_us = tonumber(ARGV[2 * at + 1]), tonumber(ARGV[2 * at + 2])
  local begin_us, used, ids = read(KEYS[at])
  repeated = repeated or knows(ids, id)
  if not begin_us or begin_us + period_us <= now_us then
    begin_us, used = now_us, 0
  elseif begin_us > now_us then -- only a clock that was set back can do that
    begin_us = now_us
  end
  if used + cost > limit then
    allowed = false
  end
  reply[2 * at - 2], reply[2 * at - 1] = used, begin_us + period_us - now_us
  windows[at] = { begin_us, used, ids }
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
  for at, each in pairs(windows) do
    write(KEYS[at], each[1], each[2] + cost, with(each[3], id), reply[2 * at - 1])
    reply[2 * at - 2] = each[2] + cost
  end
end
return reply
