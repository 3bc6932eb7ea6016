-- Remove messages that were seen from a mailbox.
-- Precondition: none.
-- KEYS[1] mailbox  prefix of the keys of the mailbox
-- DERIVED mailbox:log mailbox:meta mailbox:sent mailbox:keyed mailbox:wakeup
-- ARGV[1] id  of the last message that was seen; one above the last id is of an older mailbox, and ignored
-- ARGV[2] limit  messages that are removed at most
-- ARGV[3] ttl_ms  milliseconds
-- Returns n >= 0: messages that were removed; as many as the limit: there may be more
-- Cost: O(1) for each message that is removed
local mailbox = KEYS[1]
local id, limit, ttl_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
-- @include mailbox

local keys, count = mailbox_keys(mailbox), 0
local seq, acked = read_meta(keys)
if id > acked and id <= seq then
  local last = math.min(id, first_id(keys, id) + limit - 1)
  count = redis.call("XTRIM", keys.log, "MINID", (last + 1) .. "-0")
  redis.call("HSET", keys.meta, "acked", last)
end
renew_ttl(keys, ttl_ms)
return count
