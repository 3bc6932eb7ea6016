-- Send a message to a mailbox.
-- Precondition: none.
-- KEYS[1] mailbox  prefix of the keys of the mailbox
-- DERIVED mailbox:log mailbox:meta mailbox:sent mailbox:keyed mailbox:wakeup
-- ARGV[1] sender  text; empty for none
-- ARGV[2] body  opaque
-- ARGV[3] token  opaque; a repeated call has the same
-- ARGV[4] token_ttl_s  seconds
-- ARGV[5] max_messages  messages; the oldest are dropped
-- ARGV[6] max_bytes  bytes of bodies; the oldest are dropped
-- ARGV[7] ttl_ms  milliseconds
-- Returns n >= 1: id of the message, sent now or with this token before
-- Cost: O(1), and O(1) for each message that is dropped, 10,000 at most
local mailbox = KEYS[1]
local sender, body, token, token_ttl_s = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local max_messages, max_bytes, ttl_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
-- @include mailbox
-- @include sent

local keys, now = mailbox_keys(mailbox), redis.call("TIME")
local now_s, tokens = tonumber(now[1]), tokens_key(keys, token_ttl_s)
local seq, _, dropped = read_meta(keys)
local before = find_sent(tokens, token, seq, now_s)
if before then
  return before
end
local id = seq + 1
if id == 1 then
  redis.call("UNLINK", keys.log) -- an empty log that has lost its counter refuses this id
end
redis.call("HSET", keys.meta, "seq", string.format("%.0f", id))
redis.call("HSETNX", keys.meta, "created", string.format("%.0f", now_s * 1000000 + tonumber(now[2])))
local bytes, sent_ms = add_bytes(keys, #body), string.format("%.0f", now_s * 1000 + math.floor(tonumber(now[2]) / 1000))
redis.call("XADD", keys.log, id .. "-0", "s", sender, "b", body, "t", sent_ms)
local excess = redis.call("XLEN", keys.log) - max_messages
if excess > 0 or bytes > max_bytes then
  dropped = remove_oldest(keys, bytes, function(number, remaining, count)
    return count < excess or (remaining > max_bytes and number < id)
  end)
end
if dropped > 0 then
  redis.call("HSET", keys.meta, "dropped", dropped)
end
remember_sent(tokens, token, id, now_s, token_ttl_s)
renew_ttl(keys, ttl_ms)
redis.pcall("SPUBLISH", keys.wakeup, id) -- without permission for the channel it must not fail after the writes
return id
