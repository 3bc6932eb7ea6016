-- Create a chat, with its first message if there is a body.
-- Precondition: members contains the creator.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] token  opaque; a repeated call has the same
-- ARGV[2] creator  text: who sends the first message
-- ARGV[3] body  opaque; empty for no message
-- ARGV[4] keep_last  messages
-- ARGV[5] keep_for_ms  milliseconds
-- ARGV[6] max_messages  messages
-- ARGV[7] max_bytes  bytes
-- ARGV[8] max_age_ms  milliseconds
-- ARGV[9] ttl_ms  milliseconds
-- ARGV[10] members*  text
-- Returns 1: created, now or by a call whose reply was lost
-- Returns -1: there is a chat with this id
-- Cost: O(members)
local chat = KEYS[1]
local token, creator, body = ARGV[1], ARGV[2], ARGV[3]
local keep_last, keep_for_ms, max_messages, max_bytes = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local max_age_ms, ttl_ms = ARGV[8], ARGV[9]
-- @include chat

local keys, now_ms = chat_keys(chat), clock_ms()
local created = redis.call("HGET", keys.meta, "created")
if created then
  return created == token and 1 or -1
end
delete_chat(keys)
redis.call("HSET", keys.meta, "seq", 0, "trimmed", 0, "last_at", 0, "revision", 0, "bytes", 0, "created", token)
redis.call("HSET", keys.meta, "keep_last", keep_last, "keep_for_ms", keep_for_ms, "max_messages", max_messages)
redis.call("HSET", keys.meta, "max_bytes", max_bytes, "max_age_ms", max_age_ms, "ttl_ms", ttl_ms)
for number = 10, #ARGV do
  redis.call("ZADD", keys.members, 0, ARGV[number])
end
if body ~= "" then
  append(keys, creator, body, now_ms)
end
renew_ttl(keys)
return 1
