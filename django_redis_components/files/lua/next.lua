-- Find the next file that a consumer is not done with, in the order of their announcement.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the channel
-- DERIVED base:bytes base:limit base:sizes base:deadlines base:waiting base:waiting_until base:room:<id> base:file:<id>
-- DERIVED base:file:<id>:<number> base:file:<id>:progress base:pending:<consumer> base:wakeup:<consumer>
-- ARGV[1] consumer  name
-- ARGV[2] after  order of the last file that is skipped; 0 for none
-- Returns {id, order, fields}: the file; the fields as HGETALL replies them
-- Returns {id, order}: the record of the file is missing: the server evicted it; the consumer is not asked again
-- Returns {id}: the file has expired, and is removed: ask again
-- Returns {}: there is none; the next one writes the wakeup key
-- Cost: O(log(files)); O(chunks) of a file without a record
-- @include channel
local base = KEYS[1]
local consumer, after = ARGV[1], ARGV[2]

local now_ms = read_clock()
local pending = pending_key(base, consumer)
local id_and_number = redis.call("ZRANGE", pending, "(" .. after, "+inf", "BYSCORE", "LIMIT", 0, 1, "WITHSCORES")
local id = id_and_number[1]
if not id then
  redis.call("UNLINK", consumer_wakeup(base, consumer))
  return {}
end
local key = file_key(base, id)
local fields = redis.call("HGETALL", key)
if #fields == 0 then
  local deadline_ms = tonumber(redis.call("ZSCORE", base .. ":deadlines", id) or now_ms + 1)
  redis.call("ZREM", pending, id)
  remove_file(base, id, now_ms)
  if deadline_ms <= now_ms then
    return { id }
  end
  return { id, id_and_number[2] }
end
for _, kind in ipairs({ "raw", "data" }) do
  fields[#fields + 1] = "saved_" .. kind
  fields[#fields + 1] = redis.call("HGET", key .. ":progress", kind .. ":" .. consumer) or "0"
end
return { id, id_and_number[2], fields }
