-- The block of a log of a sliding window: a member of nine zero bytes and the author, unlike those of hits, which are
-- eight bytes, or these, a colon and a number. Its score is the time of its end and an offset, so that it is the newest
-- member whatever the clock: a hit reads that one anyway.
local OFFSET_US = 4503599627370496 -- 2^52: above all times of hits, and with a time below 2^53
-- The end of the range of scores that hits can have.
local BEFORE_BLOCKS = "(4503599627370496"

local function to_text(number)
  return string.format("%.0f", number)
end

-- Return time and member of the newest hit; or nil, the member of the block and the time of its end. All are nil
-- without members.
local function read_newest(log)
  local newest = redis.call("ZRANGE", log, -1, -1, "WITHSCORES")
  local member, score = newest[1], tonumber(newest[2])
  if member and string.byte(member, 9) == 0 then
    return nil, member, score - OFFSET_US
  end
  return score, member, nil
end

local function add_block(log, ends_us, author)
  redis.call("ZADD", log, to_text(ends_us + OFFSET_US), string.rep("\0", 9) .. author)
end
