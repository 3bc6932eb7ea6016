-- Read the messages of a chat after a cursor, or the last ones before one, that the user may see. Nothing is changed.
-- Precondition: none.
-- KEYS[1] chat  prefix of the keys of the chat
-- DERIVED chat:log chat:members chat:meta chat:hidden chat:sent chat:keyed chat:edits chat:deleted chat:wakeup
-- ARGV[1] user  text
-- ARGV[2] after  id; empty for the last seen one
-- ARGV[3] before  id; empty: after the cursor
-- ARGV[4] limit  messages; fewer are returned after about 1 MiB of bodies and edits
-- Returns an array: seq, last seen id, 1 if truncated, revision, the epoch, 1 if there are more, the entries, their edits
-- Returns -1: no such chat
-- Returns -2: the user is no member
-- Cost: O(log N) for N messages, and O(1) for each that is returned
local chat = KEYS[1]
local user, after, before, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
-- @include chat

local keys = chat_keys(chat)
local seen, code = last_seen(keys, user)
if not seen then
  return code
end
local meta = redis.call("HMGET", keys.meta, "seq", "trimmed", "revision", "created")
local seq, trimmed = tonumber(meta[1]), tonumber(meta[2])
after = before and trimmed or after or seen
local is_older = after > seq -- a cursor of an older chat with this id
local from = math.max(is_older and 0 or after, hidden_until(keys, user))
local command, first, last = "XRANGE", string.format("(%.0f-0", from), "+"
if before then
  command, first, last = "XREVRANGE", string.format("(%.0f-0", before), first
end
local entries, edits, is_cut = read_messages(command, keys.log, keys.edits, first, last, limit)
if is_cut and before then
  is_cut = count_between(keys, math.max(from, trimmed), number_of(entries[1]) - 1) > 0
elseif is_cut then
  is_cut = count_between(keys, number_of(entries[#entries]), seq) > 0
end
local is_truncated = is_older or from < trimmed
return { seq, seen, is_truncated and 1 or 0, tonumber(meta[3]), meta[4], is_cut and 1 or 0, entries, edits }
