-- A record is a time in microseconds and a number, as two doubles, and the ids of the last eight calls that wrote
-- it: by them a repetition after a lost reply is known.
local function read(key)
  local text = redis.call("GET", key)
  if not text then
    return nil, 0, ""
  end
  local time_us, number = struct.unpack(">dd", text)
  return time_us, number, string.sub(text, 17)
end

local function write(key, time_us, number, ids, life_us)
  -- A second at least: to end a key and make it anew for each hit of a fast rate takes longer than the hit itself.
  local life_ms = math.max(1000, math.ceil(life_us / 1000))
  redis.call("SET", key, struct.pack(">dd", time_us, number) .. ids, "PX", life_ms)
end

local function knows(ids, id)
  return ids ~= "" and id ~= "" and string.find(ids, id, 1, true) ~= nil
end

local function with(ids, id)
  return ids == "" and id or id .. string.sub(ids, 1, 56)
end
