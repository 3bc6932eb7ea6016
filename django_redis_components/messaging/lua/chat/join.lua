-- Add a member, who does not see what was sent before, except the history.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] user  text
-- ARGV[2] history  messages before the join that the user gets
-- ARGV[3] max_members  members
-- Returns 1: added, or a member already, whose last seen id does not change
-- Returns 0: the chat is full
-- Returns -1: no such chat
-- Cost: O(log N) for N members
local chat = KEYS[1]
local user, history, max_members = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- @include chat

local keys = chat_keys(chat)
local seen, code = last_seen(keys, user)
if seen then
  return 1
elseif code == NO_CHAT then
  return code
elseif redis.call("ZCARD", keys.members) >= max_members then
  return 0
end
local meta = redis.call("HMGET", keys.meta, "seq", "trimmed")
local hidden = math.max(tonumber(meta[1]) - history, tonumber(meta[2]))
redis.call("ZADD", keys.members, hidden, user)
redis.call("HSET", keys.hidden, user, hidden)
renew_ttl(keys)
return 1
