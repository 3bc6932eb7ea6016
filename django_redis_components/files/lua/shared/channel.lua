-- Keys of a channel: base:bytes (reserved bytes), base:limit (most bytes), base:sizes (hash: file -> "<bytes> <chunks>",
-- its name and its consumers, separated by newlines, which outlives the record), base:deadlines (zset: file ->
-- milliseconds at which its upload or the file expires), base:waiting (zset: producer's file -> arrival) and
-- base:waiting_until (zset: file -> milliseconds at which the waiting producer counts as dead).
-- Keys of a file: base:file:<id> (hash), :crc, :done, :progress and :<number> (chunks).
-- Keys of a consumer: base:pending:<consumer> (zset: file -> order), base:wakeup:<consumer> (list).
-- @include wakeup

-- Milliseconds for which a wakeup is kept.
local WAKEUP_MS = 60000
-- Milliseconds that keys live longer than what they describe.
local GRACE_MS = 60000
-- Keys of one UNLINK.
local UNLINK_KEYS = 1000

-- Return the server's time in milliseconds, and in microseconds as text.
local function read_clock()
  local time = redis.call("TIME")
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000), string.format("%d%06d", time[1], time[2])
end

local function file_key(base, id)
  return base .. ":file:" .. id
end

local function pending_key(base, consumer)
  return base .. ":pending:" .. consumer
end

local function consumer_wakeup(base, consumer)
  return base .. ":wakeup:" .. consumer
end

local function room_wakeup(base, id)
  return base .. ":room:" .. id
end

-- Have a key live for at least this long.
local function extend(key, ttl_ms)
  if redis.call("PTTL", key) < ttl_ms then
    redis.call("PEXPIRE", key, ttl_ms)
  end
end

-- Return the reserved bytes and the number of files.
local function usage(base)
  return tonumber(redis.call("GET", base .. ":bytes") or 0), redis.call("HLEN", base .. ":sizes")
end

-- Return the consumers of a file; they are stored with it, separated by newlines, which no name contains.
local function consumers_of(joined)
  local names = {}
  for name in string.gmatch(joined or "", "[^\n]+") do
    names[#names + 1] = name
  end
  return names
end

-- Return the bytes, number of chunks, name and consumers of a file, also if its record has expired.
local function reservation(base, id)
  local stored = redis.call("HGET", base .. ":sizes", id)
  if stored then
    local size, chunks, name, names = string.match(stored, "^(%d+) (%d+)\n([^\n]*)\n(.*)$")
    return tonumber(size), tonumber(chunks), name, consumers_of(names)
  end
  return 0, 0, "", consumers_of(redis.call("HGET", file_key(base, id), "consumers"))
end

-- Remove the producers from the head of the queue that died while they waited; return the first that lives.
local function first_waiter(base, now_ms)
  local waiting, waiting_until = base .. ":waiting", base .. ":waiting_until"
  while true do
    local id = redis.call("ZRANGE", waiting, 0, 0)[1]
    if not id then
      return nil
    end
    if tonumber(redis.call("ZSCORE", waiting_until, id) or 0) > now_ms then
      return id
    end
    redis.call("ZREM", waiting, id)
    redis.call("ZREM", waiting_until, id)
    redis.call("UNLINK", room_wakeup(base, id))
  end
end

-- Wake the producer that waits longest.
local function notify_waiter(base, now_ms)
  local id = first_waiter(base, now_ms)
  if id then
    notify(room_wakeup(base, id), WAKEUP_MS)
  end
end

-- Remove a producer from the queue of those that wait for room.
local function stop_waiting(base, id)
  redis.call("ZREM", base .. ":waiting", id)
  redis.call("ZREM", base .. ":waiting_until", id)
  redis.call("UNLINK", room_wakeup(base, id))
end

-- Remove a file with its chunks, and release its bytes.
local function remove_file(base, id, now_ms)
  local key, sizes, bytes = file_key(base, id), base .. ":sizes", base .. ":bytes"
  local size, chunks, _, consumers = reservation(base, id)
  for first = 0, chunks - 1, UNLINK_KEYS do
    local names = {}
    for number = first, math.min(first + UNLINK_KEYS, chunks) - 1 do
      names[#names + 1] = key .. ":" .. number
    end
    redis.call("UNLINK", unpack(names))
  end
  redis.call("UNLINK", key, key .. ":crc", key .. ":done", key .. ":progress")
  for _, consumer in ipairs(consumers) do
    redis.call("ZREM", pending_key(base, consumer), id)
    if redis.call("EXISTS", pending_key(base, consumer)) == 0 then
      redis.call("UNLINK", consumer_wakeup(base, consumer))
    end
  end
  redis.call("ZREM", base .. ":deadlines", id)
  if redis.call("HDEL", sizes, id) == 1 and redis.call("DECRBY", bytes, size) <= 0 then
    redis.call("UNLINK", bytes)
  end
  if redis.call("EXISTS", sizes) == 0 then
    redis.call("UNLINK", base .. ":limit")
  end
  notify_waiter(base, now_ms)
end
