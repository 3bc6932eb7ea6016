-- Records of one rate: three doubles and the ids of the last eight calls that wrote the record, newest first. The
-- doubles are the time of writing and another time, both in microseconds, and a number. The ids identify a call that
-- the client repeats after a lost reply. While an operator blocks the key, the record follows the block: see
-- block.lua.

-- Return time, number and ids of a record, and whether the clock went back since it was written. If it did, no time
-- has passed for the record: its time is moved back with the clock. The caller must write such a record again;
-- otherwise it would not advance until the clock has caught up. Of a blocked record return only, after these, the
-- microseconds until the block ends and its author.
local function read_record(key, now_us)
  local value = redis.call("GET", key)
  if not value then
    return nil, 0, "", false
  end
  local written_us, time_us, number = struct.unpack(">ddd", value)
  if written_us < 0 then
    local left_us = -written_us - now_us
    if left_us > 0 then
      return nil, 0, "", false, left_us, string.sub(value, 25, 24 + number)
    end
    value = string.sub(value, 25 + number)
    if value == "" then
      return nil, 0, "", false
    end
    written_us, time_us, number = struct.unpack(">ddd", value)
  end
  local back_us = math.max(0, written_us - now_us)
  return time_us - back_us, number, string.sub(value, 25), back_us > 0
end

-- Write a record with `call`, by default redis.call.
local function write_record(key, now_us, time_us, number, ids, ttl_us, call)
  -- At least a second: to expire and recreate a key for each hit of a fast rate takes longer than the hit itself.
  local ttl_ms = math.max(1000, math.ceil(ttl_us / 1000))
  call = call or redis.call
  call("SET", key, struct.pack(">ddd", now_us, time_us, number) .. ids, "PX", ttl_ms)
end

local function has_id(ids, id)
  return ids ~= "" and id ~= "" and string.find(ids, id, 1, true) ~= nil
end

local function add_id(ids, id)
  return ids == "" and id or id .. string.sub(ids, 1, 56)
end
