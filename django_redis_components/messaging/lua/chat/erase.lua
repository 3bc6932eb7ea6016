-- Delete the messages of a user among some of a chat. The user may have left.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] user  text
-- ARGV[2] after  id
-- ARGV[3] count  messages to look at; fewer if they are large
-- Returns n >= 1: id of the last message that was looked at
-- Returns 0: there are no more
-- Cost: O(count)
local chat = KEYS[1]
local user, after, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
-- @include message

local keys = chat_keys(chat)
if redis.call("EXISTS", keys.meta) == 0 then -- what a server has left that evicted the meta: no member can read it
  delete_chat(keys)
  return 0
end
local last, is_changed = 0, false
for _, entry in ipairs((read_messages("XRANGE", keys.log, nil, "(" .. after .. "-0", "+", count))) do
  last = number_of(entry)
  if entry[2][2] == user then
    remove_message(keys, entry)
    is_changed = true
  end
end
if is_changed then
  renew_ttl(keys)
  notify(keys, 0)
end
return last
