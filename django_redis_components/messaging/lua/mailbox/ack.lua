-- Remove messages that were seen from a mailbox.
-- Precondition: none.
-- KEYS[1] mailbox  prefix of the keys of the mailbox
-- DERIVED mailbox:log mailbox:meta mailbox:sent mailbox:keyed mailbox:wakeup
-- ARGV[1] id  of the last message that was seen; one above the last id is of an older mailbox, and ignored
-- ARGV[2] limit  messages that are removed at most; fewer if they are large
-- ARGV[3] ttl_ms  milliseconds
-- Returns an array: messages that were removed, and 1 if there may be more
-- Cost: O(1) for each message that is removed
local mailbox = KEYS[1]
local id, limit, ttl_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
-- @include mailbox

local keys, count, has_more = mailbox_keys(mailbox), 0, false
local seq, acked = read_meta(keys)
if id > acked and id <= seq then
  local last
  last, count, has_more = remove_oldest(keys, add_bytes(keys, 0), function(number, _, removed)
    return number <= id and removed < limit
  end)
  has_more = has_more or count == limit
  redis.call("HSET", keys.meta, "acked", has_more and last or id)
  redis.call("HSETNX", keys.meta, "seq", string.format("%.0f", seq))
end
renew_ttl(keys, ttl_ms)
return { count, has_more and 1 or 0 }
