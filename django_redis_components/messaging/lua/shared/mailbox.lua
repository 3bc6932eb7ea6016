-- A mailbox is these keys:
--   log   stream: n-0 -> s sender, b body, t time in milliseconds
--   meta  hash: seq, the last id; acked, the last id that was acknowledged; dropped, the last id that was removed without
--         an ack; created, the time of the first message in microseconds
--   sent, keyed  zsets: tokens of sent messages (shared/sent.lua)

-- Milliseconds for which the counter lives at least: as long as a token, which refers to an id.
local MIN_TTL_MS = 86400000
-- Most messages that one send drops, so that none blocks the server for long: the limit may be lower than before.
local MAX_DROPPED = 10000

-- Return the names of the keys of a mailbox.
local function mailbox_keys(mailbox)
  return {
    log = mailbox .. ":log",
    meta = mailbox .. ":meta",
    sent = mailbox .. ":sent",
    keyed = mailbox .. ":keyed",
    wakeup = mailbox .. ":wakeup",
  }
end

-- Return the last id, the last that was acknowledged and the last that was dropped. Messages that expired were dropped.
local function read_meta(keys)
  local meta = redis.call("HMGET", keys.meta, "seq", "acked", "dropped")
  local seq, acked, dropped = tonumber(meta[1] or "0"), tonumber(meta[2] or "0"), tonumber(meta[3] or "0")
  if seq > acked and redis.call("EXISTS", keys.log) == 0 then
    dropped = seq
  end
  return seq, acked, dropped
end

-- Return the id of the first message; another one if there is none.
local function first_id(keys, default)
  local entry = redis.call("XRANGE", keys.log, "-", "+", "COUNT", 1)[1]
  return entry and tonumber(string.match(entry[1], "^%d+")) or default
end

-- Let the log expire, and the counter not before it: ids must not start anew while there are messages.
local function renew_ttl(keys, ttl_ms)
  redis.call("PEXPIRE", keys.log, ttl_ms)
  redis.call("PEXPIRE", keys.meta, math.max(tonumber(ttl_ms), MIN_TTL_MS))
end
