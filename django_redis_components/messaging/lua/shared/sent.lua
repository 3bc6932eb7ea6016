-- Tokens of sent messages and edits, in two sorted sets: `keyed` of sends with a key, `sent` of all others. A set has one TTL
-- for all of its tokens: token -> (second of its expiry since EPOCH_S) * IDS + (id modulo IDS), which fits in the 53 bits
-- of a score until 2060.
local EPOCH_S, IDS = 1767225600, 8388608
-- Seconds for which every token is kept, because a call may be repeated after a lost reply: arguments.TOKEN_TTL_S.
local RETRY_S = 60
-- Tokens of older sends that are kept, those that expire next go first; and the most that one call removes.
local MAX_TOKENS, MAX_REMOVED = 10000, 1000

-- Return the key of the tokens with a TTL. Tokens with a key must not evict those without one, which expire sooner.
local function tokens_key(keys, ttl_s)
  return ttl_s > RETRY_S and keys.keyed or keys.sent
end

-- Return the highest score of a token that expires at a second or before it.
local function expiry_score(second)
  return string.format("%.0f", (second - EPOCH_S + 1) * IDS - 1)
end

-- Return the id of the message that was sent with a token; nil if there is none, or its token has expired.
local function find_sent(tokens, token, seq, now_s)
  local score = redis.call("ZSCORE", tokens, token)
  if not score or math.floor(tonumber(score) / IDS) <= now_s - EPOCH_S then
    return nil
  end
  return seq - (seq - tonumber(score) % IDS) % IDS
end

-- Store the token of a message. Remove expired ones, and those beyond the limit that no lost reply needs any more.
local function remember_sent(tokens, token, id, now_s, ttl_s)
  redis.call("ZADD", tokens, string.format("%.0f", (now_s - EPOCH_S + ttl_s) * IDS + id % IDS), token)
  redis.call("EXPIRE", tokens, ttl_s)
  local count = redis.call("ZCOUNT", tokens, "-inf", expiry_score(now_s))
  local excess = redis.call("ZCARD", tokens) - MAX_TOKENS
  if excess > count then
    count = math.min(excess, redis.call("ZCOUNT", tokens, "-inf", expiry_score(now_s + ttl_s - RETRY_S)))
  end
  if count > 0 then
    redis.call("ZREMRANGEBYRANK", tokens, 0, math.min(count, MAX_REMOVED) - 1)
  end
end
