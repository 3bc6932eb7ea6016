-- Replace the body of a message.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] user  text
-- ARGV[2] id  of the message
-- ARGV[3] body  opaque
-- Returns 1: replaced
-- Returns -1: no such chat
-- Returns -2: the user is no member
-- Returns -3: no such message
-- Returns -4: another user sent it
-- Cost: O(log N) for N messages and edits
local chat = KEYS[1]
local user, id, body = ARGV[1], ARGV[2], ARGV[3]
-- @include message

local keys = chat_keys(chat)
local code = check_sender(keys, user, id)
if code == 1 then
  redis.call("ZREMRANGEBYSCORE", keys.edits, id, id)
  redis.call("ZADD", keys.edits, id, string.format("%.0f", clock_ms()) .. ":" .. id .. ":" .. body)
  redis.call("HINCRBY", keys.meta, "revision", 1)
  renew_ttl(keys)
  notify(keys, id)
end
return code
