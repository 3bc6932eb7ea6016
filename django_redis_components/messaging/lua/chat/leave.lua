-- Remove a member, and the chat with its last one.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] user  text
-- Returns n >= 1: members that remain
-- Returns 0: the chat was deleted, now or before
-- Cost: O(log N) for N members, and O(1) for each message that is trimmed, 10,000 at most
local chat = KEYS[1]
local user = ARGV[1]
-- @include chat

local keys = chat_keys(chat)
if redis.call("ZREM", keys.members, user) == 0 then
  return redis.call("ZCARD", keys.members)
end
redis.call("HDEL", keys.hidden, user)
local count = redis.call("EXISTS", keys.meta) == 1 and redis.call("ZCARD", keys.members) or 0 -- a server may evict the meta
if count == 0 then
  delete_chat(keys)
else
  trim(keys, clock_ms())
end
notify(keys, 0)
return count
