-- Replace the body of a message.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] user  text
-- ARGV[2] id  of the message
-- ARGV[3] body  opaque
-- ARGV[4] token  opaque; a repeated call has the same
-- Returns 1: replaced, now or with this token before
-- Returns -1: no such chat
-- Returns -2: the user is no member
-- Returns -3: no such message
-- Returns -4: another user sent it
-- Cost: O(log N) for N messages and edits, and O(1) for each message that is trimmed, 10,000 at most
local chat = KEYS[1]
local user, id, body, token = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- @include message
-- @include sent

local keys, now_ms = chat_keys(chat), clock_ms()
local now_s, seq = math.floor(now_ms / 1000), tonumber(redis.call("HGET", keys.meta, "seq") or "0")
if find_sent(keys.sent, token, seq, now_s) then -- a repeated call must not replace a newer edit
  return 1
end
local code, entry = check_sender(keys, user, id)
if entry then
  local edit = string.format("%.0f", now_ms) .. ":" .. id .. ":" .. body
  redis.call("HINCRBY", keys.meta, "bytes", #edit - remove_edit(keys, entry))
  redis.call("ZADD", keys.edits, id, edit)
  redis.call("HINCRBY", keys.meta, "revision", 1)
  remember_sent(keys.sent, token, id, now_s, RETRY_S)
  trim(keys, now_ms)
  renew_ttl(keys)
  notify(keys, id)
end
return code
