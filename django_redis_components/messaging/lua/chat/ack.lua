-- Raise the last seen id of a member, and remove what all members have read.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] user  text
-- ARGV[2] id  of the last message that was seen; a higher one than there is counts as the last
-- Returns 0 or above: messages that are newly seen; 0 for a lower id than before
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
local meta = redis.call("HMGET", keys.meta, "seq", "trimmed")
local seq, trimmed = tonumber(meta[1]), tonumber(meta[2])
local last = math.max(seen, math.min(id, seq))
local count = count_unread(keys, seen, seq, trimmed) - count_unread(keys, last, seq, trimmed)
redis.call("ZADD", keys.members, "XX", "GT", last, user)
trim(keys, clock_ms())
renew_ttl(keys)
return count
