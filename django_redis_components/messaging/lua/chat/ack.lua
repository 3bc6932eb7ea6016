-- Raise the last seen id of a member, and remove what all members have read.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] user  text
-- ARGV[2] id  of the last message that was seen; a higher one than there is counts as the last
-- Returns 1: done; a lower id than before changes nothing
-- Returns -1: no such chat
-- Returns -2: the user is no member
-- Cost: O(log N) for N messages, and O(1) for each that is trimmed, 10,000 at most
local chat = KEYS[1]
local user, id = ARGV[1], tonumber(ARGV[2])
-- @include chat

local keys = chat_keys(chat)
local seen, code = last_seen(keys, user)
if not seen then
  return code
end
local seq = tonumber(redis.call("HGET", keys.meta, "seq"))
redis.call("ZADD", keys.members, "XX", "GT", math.min(id, seq), user)
trim(keys, clock_ms())
renew_ttl(keys)
return 1
