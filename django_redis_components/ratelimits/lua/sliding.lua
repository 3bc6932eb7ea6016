-- Counts a hit in exact sliding windows, in all rates or in none. Each unit of an allowed hit is a member of the log.
-- Precondition: all rates have the same algorithm.
-- KEYS[1] penalty  string: a record, see shared/penalty.lua
-- KEYS[2..] logs  zset: unit -> time in microseconds, for each rate
-- ARGV[1] id  8 bytes that name the call; empty: look only, write nothing
-- ARGV[2] denials  how many of them lead to a block; 0: no penalty; below 0: this call counts none
-- ARGV[3] block_us  microseconds of a block
-- ARGV[4] cost  what the hit uses
-- ARGV[5..] numbers  for each rate: limit, and its period in microseconds
-- Returns {1, used, retry, reset, ...}: allowed; for each rate what is used, the microseconds until this hit would
--   be allowed (0: now), and those until the log is empty
-- Returns {0, used, retry, reset, ...}: denied, nothing was counted
-- Returns {-1, us}: blocked for so many microseconds
-- Cost: O(log limit) for each rate, each unit of the hit, and each one found expired
local penalty = KEYS[1]
local id, denials, block_us = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local cost = tonumber(ARGV[4])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include penalty

local function text(number)
  return string.format("%.0f", number)
end

-- The time of the unit at this place in the log, or nil.
local function time_at(log, place)
  return tonumber(redis.call("ZRANGE", log, place, place, "WITHSCORES")[2])
end

-- Move all units back in time. The clock went back, and no time has passed since the newest of them.
local function move_back(log, back_us, period_us)
  for first = 0, redis.call("ZCARD", log) - 1, 500 do
    local found = redis.call("ZRANGE", log, first, first + 499, "WITHSCORES")
    local units = {}
    for place = 1, #found, 2 do
      units[place], units[place + 1] = text(found[place + 1] - back_us), found[place]
    end
    redis.call("ZADD", log, unpack(units))
  end
  redis.call("PEXPIRE", log, math.ceil(period_us / 1000))
end

local function add(log)
  local units = {}
  for number = 1, cost do
    units[#units + 1] = text(now_us)
    units[#units + 1] = number == 1 and id or id .. ":" .. number
    if #units == 1000 or number == cost then
      redis.call("ZADD", log, unpack(units))
      units = {}
    end
  end
end

local allowed, repeated = true, false
local reply = { 1 }
for at = 2, #KEYS do
  local log = KEYS[at]
  local limit, period_us = tonumber(ARGV[2 * at + 1]), tonumber(ARGV[2 * at + 2])
  local newest_us = time_at(log, -1)
  local back_us = newest_us and math.max(0, newest_us - now_us) or 0
  local since_us = now_us + back_us - period_us -- units of this time, and older ones, have expired
  local used = redis.call("ZCOUNT", log, "(" .. text(since_us), "+inf")
  local too_many = used + cost - limit
  local retry_us = 0
  if too_many > 0 then
    allowed = false
    local next_us = time_at(log, too_many - 1 - used)
    retry_us = next_us and next_us - since_us or 0
  end
  local reset_us = used > 0 and newest_us - since_us or 0
  reply[3 * at - 4], reply[3 * at - 3], reply[3 * at - 2] = used, retry_us, reset_us
  repeated = repeated or (id ~= "" and redis.call("ZSCORE", log, id) ~= false)
  if back_us > 0 and id ~= "" then
    move_back(log, back_us, period_us)
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
  for at = 2, #KEYS do
    local log, period_us = KEYS[at], tonumber(ARGV[2 * at + 2])
    redis.call("ZREMRANGEBYSCORE", log, "-inf", text(now_us - period_us))
    add(log)
    redis.call("PEXPIRE", log, math.ceil(period_us / 1000))
    reply[3 * at - 4], reply[3 * at - 2] = reply[3 * at - 4] + cost, period_us
  end
end
return reply
