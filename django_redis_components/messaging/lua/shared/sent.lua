-- Tokens of sent messages: a sorted set of token -> (second of its expiry since EPOCH_S) * IDS + (id modulo IDS), which
-- fits in the 53 bits of a score until 2060.
local EPOCH_S, IDS = 1767225600, 8388608
-- Most tokens; those that expire next go first.
local MAX_TOKENS = 10000

-- Return the id of the message that was sent with a token; nil if there is none, or its token has expired.
local function find_sent(sent, token, seq, now_s)
  local score = tonumber(redis.call("ZSCORE", sent, token) or "0")
  if math.floor(score / IDS) <= now_s - EPOCH_S then
    return nil
  end
  return seq - (seq - score % IDS) % IDS
end

-- Store the token of a message, and remove expired ones.
local function remember_sent(sent, token, id, now_s, ttl_s)
  local expired = (now_s - EPOCH_S + 1) * IDS - 1
  redis.call("ZREMRANGEBYSCORE", sent, "-inf", string.format("%.0f", expired))
  local score = (now_s - EPOCH_S + ttl_s) * IDS + id % IDS
  redis.call("ZADD", sent, string.format("%.0f", score), token)
  redis.call("ZREMRANGEBYRANK", sent, 0, -MAX_TOKENS - 1)
  redis.call("EXPIRE", sent, ttl_s, "NX")
  redis.call("EXPIRE", sent, ttl_s, "GT")
end
