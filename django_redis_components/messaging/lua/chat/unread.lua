-- Count the messages after the last seen one, without reading them.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] user  text
-- Returns an array: the count, seq, last seen id, revision, time of the last message in milliseconds,
-- the epoch
-- Returns -1: no such chat
-- Returns -2: the user is no member
-- Cost: O(log N) for N deleted messages
local chat = KEYS[1]
local user = ARGV[1]
-- @include chat

local keys = chat_keys(chat)
local seen, code = last_seen(keys, user)
if not seen then
  return code
end
local meta = redis.call("HMGET", keys.meta, "seq", "trimmed", "revision", "last_at", "created")
local seq = tonumber(meta[1])
return { count_unread(keys, seen, seq, tonumber(meta[2])), seq, seen, tonumber(meta[3]), tonumber(meta[4]), meta[5] }
