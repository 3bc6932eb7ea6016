-- Read the numbers of a chat, with the members who have read least. Nothing is changed.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] limit  members that are returned at most
-- Returns an array: seq, members, messages in the log, and for each of these members the name and the unread messages
-- Returns -1: no such chat
-- Cost: O(limit log N) for N members and deleted messages
local chat = KEYS[1]
local limit = tonumber(ARGV[1])
-- @include chat

local keys = chat_keys(chat)
local meta = redis.call("HMGET", keys.meta, "seq", "trimmed")
local seq, trimmed = tonumber(meta[1]), tonumber(meta[2])
if not seq then
  return NO_CHAT
end
local members = redis.call("ZRANGE", keys.members, 0, limit - 1, "WITHSCORES")
for index = 2, #members, 2 do
  members[index] = count_unread(keys, tonumber(members[index]), seq, trimmed)
end
return { seq, redis.call("ZCARD", keys.members), redis.call("XLEN", keys.log), members }
