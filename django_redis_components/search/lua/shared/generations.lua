-- An index has generations of its data: one that is read, and one that a rebuild builds beside it. All writes go to both, and the
-- set "live" of the latter has their ids: the rebuild does not overwrite them. The state has their numbers "current" and
-- "building". The data of a rebuild that has expired are deleted step by step by the next writes. If there are none, the keys
-- of that generation expire at the time "until" of the state, in milliseconds since the epoch: each new key gets that time, until
-- rebuild_keep makes the finished generation permanent and removes "until".

-- Return the prefix of the keys of the generation that is read.
local function current_base(root)
  return root .. ":" .. (redis.call("HGET", root .. ":state", "current") or "0")
end

-- Return the prefix of the keys of the generation that is built, and when they expire; nil if there is none.
local function building_base(root)
  local found = redis.call("HMGET", root .. ":state", "building", "until")
  return found[1] and root .. ":" .. found[1] or nil, found[2]
end

-- Keys that each generation has, besides those of its terms, sort values and facets.
local function common_keys(base)
  local keys = {}
  for number, part in ipairs({ "docs", "facets", "stats", "vocabulary", "names", "geo", "live" }) do
    keys[number] = base .. ":" .. part
  end
  return keys
end

-- Have these keys expire with the generation that is built. `until_ms` is false if it is permanent.
local function expire_keys(keys, until_ms)
  if until_ms then
    for _, key in ipairs(keys) do
      redis.call("PEXPIREAT", key, until_ms)
    end
  end
end

-- Give the number of the generation that is built up to be deleted.
local function discard_building(root)
  local number = redis.call("HGET", root .. ":state", "building")
  if number then
    redis.call("HDEL", root .. ":state", "building", "until")
    redis.call("SADD", root .. ":dropping", number)
  end
end

-- Return a number for a new generation. If the state was lost, the numbers start again: those whose data is still there are
-- passed over.
local function new_number(root)
  local number
  repeat
    number = redis.call("HINCRBY", root .. ":state", "last", 1)
  until redis.call("EXISTS", root .. ":" .. number .. ":docs", root .. ":" .. number .. ":vocabulary") == 0
  return number
end

-- Return the prefixes of the keys of the generations that are written: the one that is read, and the one that is built, or nil;
-- and when the keys of the latter expire.
local function written_bases(root)
  local numbers = redis.call("HMGET", root .. ":state", "current", "building", "until")
  local current = root .. ":" .. (numbers[1] or "0")
  if not numbers[2] then
    return current, nil
  end
  if redis.call("EXISTS", root .. ":build") == 1 then
    return current, root .. ":" .. numbers[2], numbers[3]
  end
  discard_building(root)
  return current, nil
end
