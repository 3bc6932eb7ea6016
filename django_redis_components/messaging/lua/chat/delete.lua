-- Delete a chat, and wake those that wait for it.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] created  epoch of the chat: a repeated call does not delete one that was created since
-- Returns 1: deleted
-- Returns 0: there is no such chat any more
-- Cost: O(1); memory is freed later
local chat = KEYS[1]
local created = ARGV[1]
-- @include chat

local keys = chat_keys(chat)
if redis.call("HGET", keys.meta, "created") ~= created then
  return 0
end
delete_chat(keys)
notify(keys, 0)
return 1
