-- A record is 16 digits of a time in microseconds, 7 digits of a number, and the ids of the last eight calls that
-- wrote it: by them a repetition after a lost reply is known.
local function read(key)
  local text = redis.call("GET", key)
  if not text then
    return nil, 0, ""
  end
  return tonumber(string.sub(text, 1, 16)), tonumber(string.sub(text, 17, 23)), string.sub(text, 24)
end

local function write(key, time_us, number, ids, life_us)
  local life_ms = math.max(1, math.ceil(life_us / 1000))
  redis.call("SET", key, string.format("%016.0f%07.0f", time_us, number) .. ids, "PX", life_ms)
end

local function knows(ids, id)
  return id ~= "" and string.find(ids, id, 1, true) ~= nil
end

local function with(ids, id)
  return string.sub(id .. ids, 1, 64)
end
