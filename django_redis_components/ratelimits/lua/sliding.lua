-- Count a hit in exact sliding windows, in all rates or in none. Each unit of an allowed hit's cost is a member.
-- Precondition: all rates have the same algorithm.
-- KEYS[1] penalty  list: denials or a block, see shared/penalties.lua
-- KEYS[2..] logs  zset: hit -> time in microseconds, for each rate
-- ARGV[1] id  8 bytes that identify the hit; empty: count nothing
-- ARGV[2] denials  denials that start a block; 0: no penalty; negative: a denial of this call is not counted
-- ARGV[3] block_us  microseconds, length of a block
-- ARGV[4] cost  hits, the cost of this one
-- ARGV[5..] numbers  for each rate: limit, period in microseconds
-- Returns {1, used, retry, reset, ...}: allowed; for each rate the hits used, the microseconds until this hit would
--   be allowed (0: now) and until the full limit is available
-- Returns {0, used, retry, reset, ...}: denied, nothing counted
-- Returns {-1, us}: blocked by the penalty, microseconds left
-- Returns {-2, us, author}: blocked by an operator, microseconds left
-- Cost: O(log limit) for each rate, each unit of the cost, and each expired member
local penalty = KEYS[1]
local id, denials, block_us = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local cost = tonumber(ARGV[4])
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @lazy penalties: block_left, count_denial
-- @include log_block

-- Return the time of the member at this rank, or nil.
local function time_at(log, rank)
  return tonumber(redis.call("ZRANGE", log, rank, rank, "WITHSCORES")[2])
end

-- A page that only reads may not correct what the clock, set back, has made wrong: its write is refused.
local correct = id == "" and redis.pcall or redis.call

-- Move all members back in time: the clock went back, and no time has passed since the newest.
local function move_back(log, back_us, period_us)
  for first = 0, redis.call("ZCARD", log) - 1, 500 do
    local entries = redis.call("ZRANGE", log, first, first + 499, "WITHSCORES")
    local members = {}
    for place = 1, #entries, 2 do
      members[place], members[place + 1] = to_text(entries[place + 1] - back_us), entries[place]
    end
    correct("ZADD", log, unpack(members))
  end
  correct("PEXPIRE", log, math.ceil(period_us / 1000))
end

local function add_hit(log)
  local members = {}
  for unit = 1, cost do
    members[#members + 1] = to_text(now_us)
    members[#members + 1] = unit == 1 and id or id .. ":" .. unit
    if #members == 1000 or unit == cost then
      redis.call("ZADD", log, unpack(members))
      members = {}
    end
  end
end

local left_us, went_back
if denials ~= 0 then
  left_us, went_back = penalties().block_left(penalty, block_us, now_us, correct)
end
if left_us and not went_back then -- if the clock went back, the rates below are corrected too
  return { -1, left_us }
end
local allowed, repeated = true, false
local reply, ended = { 1 }, nil -- ended: blocks that have ended, by index
for index = 2, #KEYS do
  local log = KEYS[index]
  local limit, period_us = tonumber(ARGV[2 * index + 1]), tonumber(ARGV[2 * index + 2])
  local newest_us, member, ends_us = read_newest(log)
  local last = -1 -- the rank of the newest hit
  if ends_us and ends_us > now_us then
    return { -2, ends_us - now_us, string.sub(member, 10) }
  elseif ends_us then
    last, newest_us = -2, time_at(log, -2)
    ended = ended or {}
    ended[index] = member
  end
  local back_us = newest_us and math.max(0, newest_us - now_us) or 0
  local since_us = now_us + back_us - period_us -- members of this time and older have expired
  local used = redis.call("ZCOUNT", log, "(" .. to_text(since_us), BEFORE_BLOCKS)
  local excess = used + cost - limit
  local retry_us = 0
  if excess > 0 then
    allowed = false
    local next_us = time_at(log, excess + last - used)
    retry_us = next_us and next_us - since_us or 0
  end
  local reset_us = used > 0 and newest_us - since_us or 0
  reply[3 * index - 4], reply[3 * index - 3], reply[3 * index - 2] = used, retry_us, reset_us
  repeated = repeated or (id ~= "" and redis.call("ZSCORE", log, id) ~= false)
  if back_us > 0 then
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
  local blocked_us = denials > 0 and penalties().count_denial(penalty, id, denials, block_us, now_us)
  reply[1] = 0
  return blocked_us and { -1, blocked_us } or reply
end
if id ~= "" then
  for index = 2, #KEYS do
    local log, period_us = KEYS[index], tonumber(ARGV[2 * index + 2])
    redis.call("ZREMRANGEBYSCORE", log, "-inf", to_text(now_us - period_us))
    if ended and ended[index] then
      redis.call("ZREM", log, ended[index])
    end
    add_hit(log)
    redis.call("PEXPIRE", log, math.ceil(period_us / 1000))
    reply[3 * index - 4], reply[3 * index - 2] = reply[3 * index - 4] + cost, period_us
  end
end
return reply
