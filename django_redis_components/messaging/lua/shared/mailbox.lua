-- A mailbox is these keys:
--   log   stream: n-0 -> s sender, b body, t time in milliseconds
--   meta  hash: seq, the last id; dropped, the last id that was removed without an ack
--   sent  zset: tokens of sent messages (shared/sent.lua)

-- Return the names of the keys of a mailbox.
local function mailbox_keys(mailbox)
  return { log = mailbox .. ":log", meta = mailbox .. ":meta", sent = mailbox .. ":sent", wakeup = mailbox .. ":wakeup" }
end

-- Let log and counter expire together: ids must not start anew while there are messages.
local function renew_ttl(keys, ttl_ms)
  redis.call("PEXPIRE", keys.log, ttl_ms)
  redis.call("PEXPIRE", keys.meta, ttl_ms)
end
