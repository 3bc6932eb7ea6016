-- The line of those who wait. `queue` orders tokens by ticket, `alive` says until when (ms) each of
-- them has promised to ask again. Expects the locals base (its bells are <base>:bell:<token>), queue,
-- alive, now_us and now_ms.

local function leave(token)
  redis.call("ZREM", queue, token)
  redis.call("ZREM", alive, token)
end

-- The first in line who still lives. The dead before it are dropped.
local function head()
  while true do
    local first = redis.call("ZRANGE", queue, 0, 0)[1]
    if not first then
      return nil
    end
    local until_ms = redis.call("ZSCORE", alive, first)
    if until_ms and tonumber(until_ms) >= now_ms then
      return first
    end
    leave(first)
  end
end

-- Takes a place, or keeps it, and returns how many stand before it. Tickets follow the server's
-- clock, and grow also while that clock is set back.
local function join(token, patience_ms)
  if not redis.call("ZSCORE", queue, token) then
    local last = tonumber(redis.call("ZRANGE", queue, -1, -1, "WITHSCORES")[2] or 0)
    redis.call("ZADD", queue, math.max(now_us, last + 1), token)
  end
  redis.call("ZADD", alive, now_ms + patience_ms, token)
  redis.call("PEXPIRE", queue, patience_ms)
  redis.call("PEXPIRE", alive, patience_ms)
  return redis.call("ZRANK", queue, token)
end

-- @include bell
