-- Delete a message.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] user  text
-- ARGV[2] id  of the message
-- Returns 1: deleted, now or before
-- Returns -1: no such chat
-- Returns -2: the user is no member
-- Returns -3: no such message
-- Returns -4: another user sent it
-- Cost: O(log N) for N messages
local chat = KEYS[1]
local user, id = ARGV[1], ARGV[2]
-- @include message

local keys = chat_keys(chat)
local code, entry = check_sender(keys, user, id)
if entry then
  remove_message(keys, entry)
  renew_ttl(keys)
  notify(keys, id)
elseif code == NO_MESSAGE and redis.call("ZSCORE", keys.deleted, id) then
  return 1
end
return code
