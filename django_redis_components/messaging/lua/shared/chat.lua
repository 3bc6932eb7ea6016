-- @include log
-- A chat is these keys:
--   log      stream: n-0 -> s sender, b body, t time in milliseconds
--   members  zset: user -> last seen id
--   meta     hash: seq, the last id; trimmed, the last id that was removed from the log; last_at, its time in
--            milliseconds; revision, the number of edits and deletions; bytes of the bodies and edits in the log;
--            created, a token; and the retention
--   hidden   hash: user -> the last id before what the member may see; none: 0
--   sent, keyed  zsets: tokens of sent messages (shared/sent.lua)
--   edits    zset: "<time>:<id>:<body>" -> id
--   deleted  zset: id -> id
local NO_CHAT, NOT_MEMBER = -1, -2

-- Return the names of the keys of a chat.
local function chat_keys(chat)
  return {
    log = chat .. ":log",
    members = chat .. ":members",
    meta = chat .. ":meta",
    hidden = chat .. ":hidden",
    sent = chat .. ":sent",
    keyed = chat .. ":keyed",
    edits = chat .. ":edits",
    deleted = chat .. ":deleted",
    wakeup = chat .. ":wakeup",
  }
end

-- Return the server's time in milliseconds.
local function clock_ms()
  local now = redis.call("TIME")
  return tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
end

-- Return the last seen id of a user; nil and a code if there is no such chat, or the user is no member.
local function last_seen(keys, user)
  if redis.call("EXISTS", keys.meta) == 0 then
    return nil, NO_CHAT
  end
  local seen = redis.call("ZSCORE", keys.members, user)
  return seen and tonumber(seen), NOT_MEMBER
end

-- Return the last id before the messages that a member may see: those since the join, and the history that it gave.
local function hidden_until(keys, user)
  return tonumber(redis.call("HGET", keys.hidden, user) or "0")
end

-- Return the number of messages after an id, up to another one, that are in the log; none of them was trimmed.
local function count_between(keys, after, last)
  return last - after - redis.call("ZCOUNT", keys.deleted, "(" .. after, last)
end

-- Return the number of messages after a last seen id that are in the log.
local function count_unread(keys, seen, seq, trimmed)
  return count_between(keys, math.max(seen, trimmed), seq)
end

-- Let all keys of a chat expire together.
local function renew_ttl(keys)
  local ttl_ms = redis.call("HGET", keys.meta, "ttl_ms")
  for _, name in ipairs({ "log", "members", "meta", "hidden", "edits", "deleted" }) do
    redis.call("PEXPIRE", keys[name], ttl_ms)
  end
end

-- Wake those that wait for the chat. A Redis user without permission for the channel must not fail after the writes.
local function notify(keys, id)
  redis.pcall("SPUBLISH", keys.wakeup, id)
end

-- Delete a chat.
local function delete_chat(keys)
  redis.call("UNLINK", keys.log, keys.members, keys.meta, keys.hidden, keys.sent, keys.keyed, keys.edits, keys.deleted)
end

-- Return the last of the messages `first` to `last` that was sent before a time; first - 1 if none was. Times grow with ids.
local function last_before(log, first, last, time_ms)
  local last_match, low, high, middle = first - 1, first, last, first
  while low <= high do
    local entry = redis.call("XRANGE", log, middle .. "-0", last .. "-0", "COUNT", 1)[1]
    if entry and tonumber(entry[2][6]) < time_ms then
      last_match = number_of(entry)
      low = last_match + 1
    else
      high = middle - 1
    end
    middle = math.floor((low + high) / 2)
  end
  return last_match
end

-- Remove the messages up to an id; the others have some bytes.
local function remove_until(keys, last, bytes)
  redis.call("XTRIM", keys.log, "MINID", (last + 1) .. "-0")
  redis.call("ZREMRANGEBYSCORE", keys.edits, "-inf", last)
  redis.call("ZREMRANGEBYSCORE", keys.deleted, "-inf", last)
  redis.call("HSET", keys.meta, "trimmed", last, "bytes", string.format("%.0f", bytes))
end

-- Remove what all members have read, except the newest messages, and what is beyond the limits in any case. A call
-- trims a bounded number; the next send, edit, ack or leave continues.
local function trim(keys, now_ms)
  local names = { "seq", "trimmed", "keep_last", "keep_for_ms", "max_messages", "max_bytes", "max_age_ms", "bytes" }
  local meta = redis.call("HMGET", keys.meta, unpack(names))
  for number = 1, #names do
    meta[names[number]] = tonumber(meta[number])
  end
  local seq, trimmed = meta.seq, meta.trimmed
  local read_by_all = tonumber(redis.call("ZRANGE", keys.members, 0, 0, "WITHSCORES")[2])
  local last = math.min(read_by_all, seq - meta.keep_last)
  if last > trimmed and meta.keep_for_ms > 0 then
    last = last_before(keys.log, trimmed + 1, last, now_ms - meta.keep_for_ms)
  end
  last = math.max(trimmed, last, seq - meta.max_messages)
  last = last_before(keys.log, last + 1, seq, now_ms - meta.max_age_ms)
  local bytes, max_bytes = meta.bytes or 0, meta.max_bytes or math.huge -- a chat of an earlier version has neither
  if last > trimmed or bytes > max_bytes then
    local found, _, remaining, is_cut = find_excess(keys.log, keys.edits, bytes, function(id, now)
      return id <= last or (now > max_bytes and id < seq)
    end)
    remove_until(keys, math.max(is_cut and trimmed or last, found or trimmed), remaining)
  end
end

-- Add a message to the log; return its id.
local function append(keys, sender, body, now_ms)
  local id = redis.call("HINCRBY", keys.meta, "seq", 1)
  local sent_ms = math.max(now_ms, tonumber(redis.call("HGET", keys.meta, "last_at")))
  redis.call("XADD", keys.log, id .. "-0", "s", sender, "b", body, "t", string.format("%.0f", sent_ms))
  redis.call("HSET", keys.meta, "last_at", string.format("%.0f", sent_ms))
  redis.call("HINCRBY", keys.meta, "bytes", #body)
  return id
end
