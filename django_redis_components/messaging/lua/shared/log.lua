-- Reading the log of a chat or a mailbox in steps. A body has up to 64 KiB, so a number of messages bounds no call.

-- Bytes of bodies and edits after which a call reads no further messages, and most messages of a step.
local MAX_READ_BYTES, STEP = 1048576, 16
-- Most messages that one call removes, so that none blocks the server for long.
local MAX_REMOVED = 10000

-- Return the number of an entry's id.
local function number_of(entry)
  return tonumber(string.match(entry[1], "^%d+"))
end

-- Return the edits of entries in the order of their ids, each followed by the id; nothing for a log without edits.
local function edits_of(edits, entries)
  if not edits or #entries == 0 then
    return {}
  end
  return redis.call("ZRANGEBYSCORE", edits, number_of(entries[1]), number_of(entries[#entries]), "WITHSCORES")
end

-- Read messages from an id on, up to a limit and about MAX_READ_BYTES. "XREVRANGE" reads them from the newest on.
-- Return the entries in the order of their ids, their edits, and whether it has stopped before the end.
local function read_messages(command, log, edits, from, to, limit)
  local entries, replaced, bytes, is_cut, count = {}, {}, 0, true, STEP
  while is_cut and #entries < limit and bytes < MAX_READ_BYTES do
    count = math.min(count, limit - #entries)
    local read, step = bytes, redis.call(command, log, from, to, "COUNT", count)
    is_cut = #step == count
    from = is_cut and "(" .. step[count][1]
    for _, entry in ipairs(step) do
      entries[#entries + 1] = entry
      bytes = bytes + #entry[2][4]
    end
    if command == "XREVRANGE" and #step > 1 then
      step[1], step[#step] = step[#step], step[1] -- edits are read from the lowest id on
    end
    local step_edits = edits_of(edits, step)
    for index = 1, #step_edits, 2 do
      replaced[#replaced + 1] = step_edits[index]
      bytes = bytes + #step_edits[index]
    end
    -- As many more as fit, if they are as large as those of this step.
    count = math.min(STEP, math.max(1, math.floor((MAX_READ_BYTES - bytes) * #step / (bytes - read))))
  end
  if command == "XREVRANGE" then
    for index = 1, math.floor(#entries / 2) do
      entries[index], entries[#entries + 1 - index] = entries[#entries + 1 - index], entries[index]
    end
  end
  return entries, replaced, is_cut
end

-- Find the oldest messages that are to be removed: `is_excess(id, bytes, count)` says whether a message is, after `count`
-- older ones of a log that had `bytes` then. Reads about MAX_READ_BYTES.
-- Return the id of the last one (nil: none), their number, the bytes of the others, and whether there may be more.
local function find_excess(log, edits, bytes, is_excess)
  local last, count, read, from, size = nil, 0, 0, "-", 1
  while count < MAX_REMOVED and read < MAX_READ_BYTES do
    if last and not is_excess(last + 1, bytes, count) then
      return last, count, bytes, false -- the next one is not read for nothing
    end
    local entries, edited = redis.call("XRANGE", log, from, "+", "COUNT", size), {}
    local entry_edits = edits_of(edits, entries)
    for index = 1, #entry_edits, 2 do
      edited[tonumber(entry_edits[index + 1])] = #entry_edits[index]
    end
    for _, entry in ipairs(entries) do
      local id = number_of(entry)
      if count == MAX_REMOVED or not is_excess(id, bytes, count) then
        return last, count, bytes, count == MAX_REMOVED
      end
      local freed = #entry[2][4] + (edited[id] or 0)
      last, count, read, bytes = id, count + 1, read + freed, math.max(0, bytes - freed)
    end
    if #entries < size then
      return last, count, bytes, false
    end
    from, size = "(" .. entries[size][1], math.min(2 * size, STEP)
  end
  return last, count, bytes, true
end
