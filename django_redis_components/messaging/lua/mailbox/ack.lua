-- Remove messages that were seen from a mailbox.
-- Precondition: none.
-- KEYS[1] mailbox  prefix of the keys of the mailbox
-- DERIVED mailbox:log mailbox:meta mailbox:sent mailbox:wakeup
-- ARGV[1] id  of the last message that was seen
-- ARGV[2] ttl_ms  milliseconds
-- Returns n >= 0: messages that were removed
-- Cost: O(1) for each message that is removed
local mailbox = KEYS[1]
local id, ttl_ms = ARGV[1], ARGV[2]
-- @include mailbox

local keys = mailbox_keys(mailbox)
local count = redis.call("XTRIM", keys.log, "MINID", string.format("%.0f", tonumber(id) + 1) .. "-0")
renew_ttl(keys, ttl_ms)
return count
