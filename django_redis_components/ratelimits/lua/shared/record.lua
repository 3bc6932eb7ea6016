-- A record holds three doubles and the ids of the last eight calls that wrote it, newest first. The doubles: when it
-- was written and a time, both in microseconds, and a number. The ids let a script recognise a call that the client
-- repeats after a lost reply.

-- Time, number and ids of a record, and whether the clock went back since it was written. If it did, no time has
-- passed for the record: its time moves back with the clock. The caller must write such a record again, or it would
-- not advance until the clock has caught up.
local function read(key)
  local text = redis.call("GET", key)
  if not text then
    return nil, 0, "", false
  end
  local written_us, time_us, number = struct.unpack(">ddd", text)
  local back_us = math.max(0, written_us - now_us)
  return time_us - back_us, number, string.sub(text, 25), back_us > 0
end

local function write(key, time_us, number, ids, life_us)
  -- A second at least: to end a key and make it anew for each hit of a fast rate takes longer than the hit itself.
  local life_ms = math.max(1000, math.ceil(life_us / 1000))
  redis.call("SET", key, struct.pack(">ddd", now_us, time_us, number) .. ids, "PX", life_ms)
end

local function knows(ids, id)
  return ids ~= "" and id ~= "" and string.find(ids, id, 1, true) ~= nil
end

local function with(ids, id)
  return ids == "" and id or id .. string.sub(ids, 1, 56)
end
