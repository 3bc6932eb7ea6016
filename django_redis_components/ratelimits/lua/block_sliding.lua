-- Block a key for all hits, or end its block. A later block replaces it. The counts are kept.
-- Precondition: the algorithm of the rates is sliding.
-- KEYS[1] penalty  list: denials or a block, see shared/penalties.lua; deleted if the block outlives it
-- KEYS[2..] logs  zset: hit -> time in microseconds, for each rate; and the block, see shared/log_block.lua
-- ARGV[1] blocked_us  microseconds; 0: end the block
-- ARGV[2] author  the operator
-- ARGV[3..] numbers  for each rate: limit, period in microseconds
-- Returns 1: done
-- Returns 0: there was no block to end
-- Cost: O(log limit) for each rate
local penalty = KEYS[1]
local blocked_us, author = tonumber(ARGV[1]), ARGV[2]
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include log_block
-- @include outlived_penalty

local done = 0
for index = 2, #KEYS do
  local log, period_us = KEYS[index], tonumber(ARGV[2 * index])
  local _, member, ends_us = read_newest(log)
  if ends_us then
    redis.call("ZREM", log, member)
    done = ends_us > now_us and 1 or done
  end
  if blocked_us > 0 then
    add_block(log, now_us + blocked_us, author)
  end
  if blocked_us > 0 or ends_us then
    local kept_us = math.max(blocked_us, period_us)
    redis.call("PEXPIRE", log, math.ceil(kept_us / 1000))
  end
end
if blocked_us > 0 then
  delete_outlived_penalty(penalty, blocked_us)
  done = 1
end
return done
