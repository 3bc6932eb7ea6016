-- Read the messages of a mailbox after a cursor. Nothing is changed.
-- Precondition: none.
-- KEYS[1] mailbox  prefix of the keys of the mailbox
-- DERIVED mailbox:log mailbox:meta mailbox:sent mailbox:wakeup
-- ARGV[1] after  id; empty for all messages
-- ARGV[2] limit  messages
-- Returns an array: seq, the last id that was dropped, the cursor, the entries
-- Cost: O(log N) for N messages, and O(1) for each that is returned
local mailbox = KEYS[1]
local after, limit = tonumber(ARGV[1] == "" and "0" or ARGV[1]), ARGV[2]
-- @include mailbox

local keys = mailbox_keys(mailbox)
local meta = redis.call("HMGET", keys.meta, "seq", "dropped")
local seq, dropped = tonumber(meta[1] or "0"), tonumber(meta[2] or "0")
local from = after > seq and 0 or after -- a cursor of a mailbox that has expired
local entries = redis.call("XRANGE", keys.log, "(" .. string.format("%.0f", from) .. "-0", "+", "COUNT", limit)
return { seq, dropped, after, entries }
