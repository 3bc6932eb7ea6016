-- Remove the files of producers that died, producers that died while they waited, and expired files.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the channel
-- DERIVED base:bytes base:limit base:sizes base:deadlines base:waiting base:waiting_until base:room:<id> base:file:<id>
-- DERIVED base:file:<id>:<number> base:pending:<consumer> base:wakeup:<consumer>
-- ARGV[1] count  most files; fewer if they have many chunks
-- Returns {wait_ms, state, name, consumers, ...}: milliseconds until the next file expires, -1 without files; then for
-- each file its state ("publishing" or "ready"), name, and the consumers not done, by newlines
-- Cost: O(chunks) of the files, 1,000 and those of one file at most
-- @include channel
local base = KEYS[1]
local count = tonumber(ARGV[1])
-- Chunks after which a call removes no further files: the server frees each at once.
local MAX_REMOVED = 1000

local now_ms = read_clock()
local deadlines, reply, removed = base .. ":deadlines", { -1 }, 0
for _, id in ipairs(redis.call("ZRANGE", deadlines, "-inf", now_ms, "BYSCORE", "LIMIT", 0, count)) do
  local _, chunks, name, consumers = reservation(base, id)
  local unread = {}
  for _, consumer in ipairs(consumers) do
    if redis.call("ZSCORE", pending_key(base, consumer), id) then
      unread[#unread + 1] = consumer
    end
  end
  reply[#reply + 1] = redis.call("HGET", file_key(base, id), "state") or "ready" -- the record may have expired
  reply[#reply + 1] = name
  reply[#reply + 1] = table.concat(unread, "\n")
  remove_file(base, id, now_ms)
  removed = removed + chunks
  if removed >= MAX_REMOVED then
    break
  end
end
local head = redis.call("ZRANGE", base .. ":waiting", 0, 0)[1]
if head and head ~= first_waiter(base, now_ms) then
  notify_waiter(base, now_ms)
end
local first = redis.call("ZRANGE", deadlines, 0, 0, "WITHSCORES")
if first[2] then
  reply[1] = math.max(0, tonumber(first[2]) - now_ms)
end
return reply
