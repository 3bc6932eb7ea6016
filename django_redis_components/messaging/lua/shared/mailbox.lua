-- @include log
-- A mailbox is these keys:
--   log   stream: n-0 -> s sender, b body, t time in milliseconds
--   meta  hash: seq, the last id; acked, the last id that was acknowledged; dropped, the last id that was removed without
--         an ack; bytes of the bodies in the log; created, the time of the first message in microseconds
--   sent, keyed  zsets: tokens of sent messages (shared/sent.lua)

-- Milliseconds for which the counter lives at least: as long as a token, which refers to an id.
local MIN_TTL_MS = 86400000

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

-- Return the id of the newest message in the log; 0 without one.
local function newest_id(keys)
  local newest = redis.call("XREVRANGE", keys.log, "+", "-", "COUNT", 1)[1]
  return newest and number_of(newest) or 0
end

-- Return the last id, the last that was acknowledged and the last that was dropped. Messages that expired were dropped.
-- Without the counter, which a server may evict, ids go on after those of the log: it refuses lower ones.
local function read_meta(keys)
  local meta = redis.call("HMGET", keys.meta, "seq", "acked", "dropped")
  local seq, acked, dropped = tonumber(meta[1]) or newest_id(keys), tonumber(meta[2] or "0"), tonumber(meta[3] or "0")
  if seq > acked and redis.call("EXISTS", keys.log) == 0 then
    dropped = seq
  end
  return seq, acked, dropped
end

-- Add to the bytes of the bodies in the log; return their sum.
local function add_bytes(keys, bytes)
  if redis.call("EXISTS", keys.log) == 0 then
    redis.call("HSET", keys.meta, "bytes", 0) -- the log expires before the counter
  end
  return redis.call("HINCRBY", keys.meta, "bytes", bytes)
end

-- Remove the oldest messages for which `is_excess` is true (see `find_excess`); `bytes` is what the log has now. Return the id
-- of the last one (0: none), their number, and whether there may be more.
local function remove_oldest(keys, bytes, is_excess)
  local last, count, remaining, is_cut = find_excess(keys.log, nil, bytes, is_excess)
  if last then
    redis.call("XTRIM", keys.log, "MINID", (last + 1) .. "-0")
    redis.call("HSET", keys.meta, "bytes", string.format("%.0f", remaining))
  end
  return last or 0, count, is_cut
end

-- Let the log expire, and the counter not before it: ids must not start anew while there are messages.
local function renew_ttl(keys, ttl_ms)
  redis.call("PEXPIRE", keys.log, ttl_ms)
  redis.call("PEXPIRE", keys.meta, math.max(tonumber(ttl_ms), MIN_TTL_MS))
end
