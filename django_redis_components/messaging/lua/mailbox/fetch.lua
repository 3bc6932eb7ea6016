-- Read the messages of a mailbox after a cursor. Nothing is changed.
-- Precondition: none.
-- KEYS[1] mailbox  prefix of the keys of the mailbox
-- DERIVED mailbox:log mailbox:meta mailbox:sent mailbox:keyed mailbox:wakeup
-- ARGV[1] after  id; empty for the last that was acknowledged
-- ARGV[2] limit  messages; fewer are returned after about 1 MiB of bodies
-- Returns an array: seq, the cursor, 1 if truncated, the epoch (empty before the first message), 1 if there are more, the
-- entries
-- Cost: O(log N) for N messages, and O(1) for each that is returned
local mailbox = KEYS[1]
local after, limit = tonumber(ARGV[1]), tonumber(ARGV[2])
-- @include mailbox

local keys = mailbox_keys(mailbox)
local seq, acked, dropped = read_meta(keys)
after = after or acked
local is_older = after > seq -- a cursor of an older mailbox
local from = is_older and 0 or after
local entries, _, is_cut = read_messages("XRANGE", keys.log, nil, string.format("(%.0f-0", from), "+", limit)
local is_truncated = is_older or after < dropped
is_cut = is_cut and number_of(entries[#entries]) < seq
local epoch = redis.call("HGET", keys.meta, "created") or ""
return { seq, after, is_truncated and 1 or 0, epoch, is_cut and 1 or 0, entries }
