-- Tokens of rows of the outbox: a row whose token is there was accepted. The score is when, in microseconds, plus a quarter
-- for each of the sender's number: a double has two bits below a microsecond until the year 2041, and then the number is lost.
-- @include context

local function add_token(ctx, token, at_us, sender)
  redis.call("ZADD", base_key(ctx, K.outbox), at_us + sender / 4, token)
end

-- When the row of a token was accepted, in microseconds; below 0 if another sender has sent it. False if it was not accepted.
local function token_reply(ctx, token, sender)
  local score = redis.call("ZSCORE", base_key(ctx, K.outbox), token)
  if not score then
    return false
  end
  local at_us = math.floor(tonumber(score))
  return tonumber(score) - at_us == sender / 4 and at_us or -at_us
end
