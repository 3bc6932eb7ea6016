-- Block a key for all hits, or end its block. A later block replaces it. The counts are kept.
-- The block stands before the record of each rate (see shared/record.lua), with three doubles: the negative time of its
-- end, the time until which the record must be kept, and the length of the author, who follows. All are in microseconds
-- and bytes.
-- Precondition: the algorithm of the rates is gcra or fixed.
-- KEYS[1] penalty  list: denials or a block, see shared/penalties.lua; deleted if the block outlives it
-- KEYS[2..] rates  string: a record for each rate
-- ARGV[1] blocked_us  microseconds; 0: end the block
-- ARGV[2] author  the operator
-- Returns 1: done
-- Returns 0: there was no block to end
-- Cost: O(rates)
local penalty = KEYS[1]
local blocked_us, author = tonumber(ARGV[1]), ARGV[2]
local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
-- @include outlived_penalty

local ends_us = now_us + blocked_us
local done = 0
for index = 2, #KEYS do
  local key = KEYS[index]
  local record, kept_us = redis.call("GET", key) or "", now_us
  local had_block = false
  if record ~= "" then
    local first_us, second_us, third = struct.unpack(">ddd", record)
    had_block = first_us < 0
    if had_block then
      record, kept_us = string.sub(record, 25 + third), second_us
      done = -first_us > now_us and 1 or done
    else
      kept_us = now_us + redis.call("PTTL", key) * 1000
    end
  end
  if blocked_us > 0 then
    local block = struct.pack(">ddd", -ends_us, kept_us, #author) .. author
    local ttl_ms = math.ceil((math.max(ends_us, kept_us) - now_us) / 1000)
    redis.call("SET", key, block .. record, "PX", ttl_ms)
  elseif had_block and record ~= "" and kept_us > now_us then
    local ttl_ms = math.ceil((kept_us - now_us) / 1000)
    redis.call("SET", key, record, "PX", ttl_ms)
  elseif had_block then
    redis.call("DEL", key)
  end
end
if blocked_us > 0 then
  delete_outlived_penalty(penalty, blocked_us)
  done = 1
end
return done
