-- Send a message to a chat. The last seen ids do not change, that of the sender included.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] sender  text
-- ARGV[2] body  opaque
-- ARGV[3] token  opaque; a repeated call has the same
-- ARGV[4] token_ttl_s  seconds
-- Returns n >= 1: id of the message, sent now or with this token before
-- Returns -1: no such chat
-- Returns -2: the sender is no member
-- Cost: O(log N) for N messages, and O(1) for each that is trimmed, 10,000 at most
local chat = KEYS[1]
local sender, body, token, token_ttl_s = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
-- @include chat
-- @include sent

local keys, now_ms = chat_keys(chat), clock_ms()
local now_s = math.floor(now_ms / 1000)
local seen, code = last_seen(keys, sender)
if code == NO_CHAT then
  return code
end
local tokens = tokens_key(keys, token_ttl_s)
local before = find_sent(tokens, token, tonumber(redis.call("HGET", keys.meta, "seq")), now_s)
if before then
  return before
elseif not seen then
  return code
end
local id = append(keys, sender, body, now_ms)
remember_sent(tokens, token, id, now_s, token_ttl_s)
trim(keys, now_ms)
renew_ttl(keys)
notify(keys, id)
return id
